// The legend: what the colours mean. Classes in it can be pointed at and chosen; arrow keys go from one to the next.

function drawLegend(data) {
  const legend = byId("legend");
  const { way, theme } = state;
  const key = (colour, text) => el("span", { class: "key" }, dot(colour), text);
  if (BY_CLASS.includes(way)) {
    legend.replaceChildren(...classKeys(data), ...(way === "cluster" ? [key("transparent", "one shade a cluster, the largest first")] : []));
  } else if (way === "loss") {
    const stops = Array.from({ length: 9 }, (_, i) => ramp(i / 8, theme));
    legend.replaceChildren("loss 0", el("span", { class: "ramp", style: { background: `linear-gradient(90deg, ${stops})` } }),
      `${lossText(data.lossScale)} and more`);
  } else if (way === "correct") {
    legend.replaceChildren(key(RIGHT[theme], "right"), key(WRONG[theme], "wrong, drawn larger"));
  } else if (way === "split") {
    legend.replaceChildren(...PART_WORDS.map((part, i) => key(palette(3, theme)[i], part)));
  } else {
    legend.replaceChildren(key(palette(2, theme)[1], "has it"), key(GREY[theme], "has it not"), key(FAINT[theme], "unknown"));
  }
  legend.append(el("span", { class: "key" }, el("i", {
    class: "dot", style: { background: "#fff", boxShadow: "inset 0 0 0 1.5px #11161d" },
  }), "cluster centre"));
  if (data.runs.some((run) => run.crowd)) legend.append(el("span", { class: "key crowd" }, dot(GREY[theme]), "not in the sample, seen close up"));
}

function classKeys(data) {
  const colours = classColours(data, state.theme);
  const { moment } = maps[0];
  const shades = state.way === "cluster" ? clusterShades(data, moment, state.theme) : null;
  const swatch = (label) => (shades
    ? el("span", { class: "shades" }, moment.ofClass[label].map((cluster) => el("i", { style: { background: shades[cluster] } })))
    : dot(colours[label]));
  const chosen = (label) => state.selection?.kind === "class" && state.selection.label === label;
  return data.classes.map((name, label) => el("button", {
    type: "button", class: "class-key", title: name, "aria-pressed": String(chosen(label)), tabIndex: label ? -1 : 0,
    onclick: () => select(chosen(label) ? null : { kind: "class", label }, state.tab === "Modes" ? "Modes" : "Selection"),
    onmouseenter: () => preview({ kind: "class", label }), onmouseleave: () => preview(null),
    onfocus: (event) => { if (event.target.matches(":focus-visible")) preview({ kind: "class", label }); },
    onblur: () => preview(null),
    onkeydown: (event) => stepLegend(event),
  }, swatch(label), el("span", { textContent: name })));
}

// One stop of the tab key for all classes.
function stepLegend(event) {
  const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!way) return;
  event.preventDefault();
  const keys = [...document.querySelectorAll("#legend .class-key")];
  const next = keys[(keys.indexOf(event.currentTarget) + way + keys.length) % keys.length];
  event.currentTarget.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function markLegend() {
  const label = state.selection?.kind === "class" ? state.selection.label : NONE;
  document.querySelectorAll("#legend .class-key").forEach((key, i) => key.setAttribute("aria-pressed", String(i === label)));
}
