// The right-hand side: four tabs.

const TABS = { Selection: selectionPanel, Modes: modesPanel, Suspects: suspectsPanel, About: aboutPanel };

function startPanel(data) {
  const tabs = byId("tabs");
  const names = Object.keys(TABS);
  tabs.append(...names.map((name) => el("button", {
    type: "button", role: "tab", id: `tab-${name}`, textContent: name, "aria-controls": "panel",
    onclick: () => change({ tab: name }, "tab"),
  })));
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(state.tab) + step + names.length) % names.length];
    change({ tab: next }, "tab");
    byId(`tab-${next}`).focus();
  });
  on("tab", () => showTab(data));
  showTab(data);
}

function showTab(data) {
  for (const name of Object.keys(TABS)) {
    const chosen = name === state.tab;
    byId(`tab-${name}`).setAttribute("aria-selected", chosen);
    byId(`tab-${name}`).tabIndex = chosen ? 0 : -1;
  }
  const panel = byId("panel");
  panel.setAttribute("aria-labelledby", `tab-${state.tab}`);
  panel.replaceChildren(...TABS[state.tab](data).filter(Boolean));
  panel.scrollTop = 0;
  hideTooltip();
}

function selectionPanel(data) {
  const chosen = state.selection;
  if (chosen?.kind === "example") return examplePanel(data, chosen);
  if (chosen?.kind === "cluster") return clusterPanel(data, chosen);
  if (chosen?.kind === "class") return classPanel(data, chosen.label);
  if (chosen?.kind === "found") return foundPanel(data, chosen);
  return [
    el("h2", { textContent: "Nothing is chosen" }),
    el("p", { class: "soft", textContent:
      "Click a point for its neighbours and probabilities, a white dot for its cluster, or a class in the legend." }),
    el("p", { class: "soft", textContent: "Drag to move, scroll to zoom: close up, points become pictures." }),
  ];
}

function classPanel(data, label) {
  const view = maps[0];
  return [
    el("h2", {}, dot(palette(data.classes.length, state.theme)[label]), el("span", { class: "name", textContent: data.classes[label] })),
    el("p", { class: "soft", textContent: `${plural(data.byClass[label].length, "example")} shown` }),
    el("table", {}, el("tr", {}, ["run", "mean loss", "wrong"].map((name, i) => el("th", { class: i ? "number" : "", textContent: name }))),
      data.runs.map((run) => classRow(data, run, data.byClass[label]))),
    el("p", {}, el("button", {
      class: "link", type: "button", textContent: `See its ${plural(view.moment.ofClass[label].length, "mode")}`,
      onclick: () => select({ kind: "class", label }, "Modes"),
    })),
    el("h3", { textContent: "Examples" }),
    el("div", { class: "grid" }, data.byClass[label].slice(0, 42).map((id) => thumb(data, id, 46))),
  ];
}

function classRow(data, run, ids) {
  const mean = (value) => ids.reduce((sum, id) => sum + value(id), 0) / Math.max(ids.length, 1);
  return el("tr", {}, el("td", { class: "name", textContent: run.name }),
    el("td", { class: "number", textContent: lossText(mean((id) => run.loss[id])) }),
    el("td", { class: "number", textContent: percent(mean((id) => Number(run.prediction[id] !== data.labels[id]))) }));
}

function foundPanel(data, { ids, text }) {
  return [
    el("h2", {}, plural(ids.length, "example"), " with ", el("span", { class: "name", textContent: `“${text}”` })),
    el("p", { class: "soft", textContent: ids.length > 84 ? "The first 84:" : "" }),
    el("div", { class: "grid" }, ids.slice(0, 84).map((id) => thumb(data, id, 46))),
  ];
}
