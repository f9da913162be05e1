// One picture, as large as there is room for, with its path and the way to the original; of a table, all its values.

function openViewer(data, id) {
  const box = byId("viewer");
  const side = Math.min(560, innerWidth - 60, innerHeight - 200);
  const original = data.originals && data.originals + data.names[id].split(/[\\/]/).map(encodeURIComponent).join("/");
  box.replaceChildren(...[
    data.pictures.kind === "features" ? null : look(data, id, side),
    el("p", {}, el("b", { class: "name", text: data.classes[data.labels[id]] })),
    el("p", { class: "soft name", text: data.titles[id] }),
    data.pictures.kind === "features" ? namedBars(data, id) : "",
    el("div", { class: "tools" },
      original ? el("a", { href: original, target: "_blank", rel: "noreferrer", class: "original", textContent: "Open the original" }) : null,
      el("button", { type: "button", class: "plain", textContent: "Close", onclick: () => box.close() }))].filter(Boolean));
  box.onclick = (event) => { if (event.target === box) box.close(); };
  box.showModal();
}

// Each value of an example between the lowest and the highest that its feature has on the page.
function namedBars(data, id) {
  const { values, columns, low, high } = data.pictures;
  const colour = classColours(data, state.theme)[data.labels[id]];
  const share = (i) => (high[i] > low[i] ? (values[id * columns.length + i] - low[i]) / (high[i] - low[i]) : 0);
  return el("div", { class: "bars", tabIndex: 0, role: "region", "aria-label": "Values" },
    el("p", { class: "soft small", textContent: "Each value between the lowest and the highest of its feature on this page." }),
    el("table", {}, features(data, id).map(([name, value], i) => el("tr", {},
      el("td", { class: "name", text: name }),
      el("td", {}, el("span", { class: "range", title: `${exact(low[i])} to ${exact(high[i])}` }, el("i", { style: { width: `${100 * share(i)}%`, background: colour } }))),
      el("td", { class: "number", textContent: value })))));
}
