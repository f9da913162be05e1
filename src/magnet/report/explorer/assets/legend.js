// The legend: what the colours mean. Classes in it can be pointed at and chosen.

function drawLegend(data) {
  const legend = byId("legend");
  const { way, theme } = state;
  const key = (colour, text) => el("span", { class: "key" }, dot(colour), text);
  if (way === "class" || way === "prediction" || way === "cluster") {
    legend.replaceChildren(...classKeys(data), ...(way === "cluster" ? [key("transparent", "one shade a cluster")] : []));
  } else if (way === "loss") {
    const stops = Array.from({ length: 9 }, (_, i) => ramp(i / 8, theme));
    legend.replaceChildren("loss 0", el("span", { class: "ramp", style: { background: `linear-gradient(90deg, ${stops})` } }),
      `${lossText(data.lossScale)} and more`);
  } else if (way === "correct") {
    legend.replaceChildren(key(RIGHT[theme], "right"), key(WRONG[theme], "wrong, drawn larger"));
  } else if (way === "split") {
    legend.replaceChildren(...PARTS.map((part, i) => key(palette(3, theme)[i], part)));
  } else {
    legend.replaceChildren(key(palette(2, theme)[1], "has it"), key(GREY[theme], "has it not"), key(FAINT[theme], "unknown"));
  }
  legend.append(el("span", { class: "key" }, el("i", {
    class: "dot", style: { background: "#fff", boxShadow: "inset 0 0 0 1.5px #11161d" },
  }), "cluster centre"));
}

function classKeys(data) {
  const colours = palette(data.classes.length, state.theme);
  const chosen = (label) => state.selection?.kind === "class" && state.selection.label === label;
  return data.classes.map((name, label) => el("button", {
    type: "button", class: "class-key", title: name, "aria-pressed": String(chosen(label)),
    onclick: () => select(chosen(label) ? null : { kind: "class", label }, state.tab === "Modes" ? "Modes" : "Selection"),
    onmouseenter: () => preview({ kind: "class", label }), onmouseleave: () => preview(null),
    onfocus: (event) => { if (event.target.matches(":focus-visible")) preview({ kind: "class", label }); },
    onblur: () => preview(null),
  }, dot(colours[label]), name));
}

function markLegend() {
  const label = state.selection?.kind === "class" ? state.selection.label : NONE;
  document.querySelectorAll("#legend .class-key").forEach((key, i) => key.setAttribute("aria-pressed", String(i === label)));
}
