// The right-hand side, or the sheet from below: the tabs and the panel of what is chosen.

function tabsOf(data) {
  const compare = data.runs.length > 1 ? { Compare: comparePanel } : {};
  return { Summary: summaryPanel, Selection: selectionPanel, Modes: modesPanel, Suspects: suspectsPanel, ...compare, About: aboutPanel };
}

function startPanel(data) {
  const tabs = byId("tabs");
  const names = Object.keys(tabsOf(data));
  tabs.append(...names.map((name) => el("button", {
    type: "button", role: "tab", id: `tab-${name}`, textContent: name, "aria-controls": "panel",
    onclick: () => { change({ tab: name }, "tab"); openSheet(); },
  })));
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(state.tab) + step + names.length) % names.length];
    change({ tab: next }, "tab");
    byId(`tab-${next}`).focus();
  });
  let shown = null;
  on("tab", () => {
    const same = shown && shown[0] === state.tab && shown[1] === state.selection; // marks and time leave it where it is
    showTab(data, same);
    shown = [state.tab, state.selection];
  });
  on("selection", () => { byId("status").textContent = selectionText(data); });
  showTab(data);
}

function showTab(data, same = false) {
  const tabs = tabsOf(data);
  for (const name of Object.keys(tabs)) {
    const chosen = name === state.tab;
    byId(`tab-${name}`).setAttribute("aria-selected", chosen);
    byId(`tab-${name}`).tabIndex = chosen ? 0 : -1;
  }
  const panel = byId("panel");
  const top = panel.scrollTop;
  panel.setAttribute("aria-labelledby", `tab-${state.tab}`);
  panel.replaceChildren(...tabs[state.tab](data).filter(Boolean));
  if (top) panel.scrollTop = same ? top : 0; // at the top already, a layout is saved
  hideTooltip();
}

// What is chosen, in words, for a screen reader.
function selectionText(data) {
  const chosen = state.selection;
  if (chosen?.kind === "example") {
    const moment = momentFor(data.runs[chosen.run ?? 0], chosen.id);
    return `${data.classes[data.labels[chosen.id]]}, taken for ${data.classes[predictionOf(moment, chosen.id)]}, ${data.titles[chosen.id]}`;
  }
  if (chosen?.kind === "cluster") return modeName(data, chosen.moment, chosen.cluster);
  if (chosen?.kind === "class") return `class ${data.classes[chosen.label]}`;
  return chosen ? plural(chosen.ids.length, "example") : "nothing is chosen";
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
      "Choose a point for its neighbours and probabilities, a white dot for its cluster, or the name of a class." }),
    el("p", { class: "soft", textContent: "Drag to move, scroll or pinch to zoom: close up, points become pictures." }),
  ];
}

function classPanel(data, label) {
  return [
    el("h2", {}, dot(classColours(data, state.theme)[label]), el("span", { class: "name", text: data.classes[label] })),
    el("p", { class: "soft", textContent: `${plural(data.byClass[label].length, "example")} shown` }),
    el("table", {}, el("tr", {}, ["run", "mean loss", "wrong"].map((name, i) => el("th", { class: i ? "number" : "", textContent: name }))),
      data.runs.map((run) => classRow(data, momentOf(run), data.byClass[label]))),
    el("p", {}, el("button", {
      class: "link", type: "button", textContent: seeModes(momentOf(data.runs[0]).ofClass[label].length),
      onclick: () => select({ kind: "class", label }, "Modes"),
    })),
    ...featuresApart(data, data.byClass[label], ...ALL_OTHERS),
    el("h3", { textContent: "Examples" }),
    el("div", { class: "grid" }, data.byClass[label].slice(0, 42).map((id) => thumb(data, id, pictureSize(data)))),
  ];
}

const seeModes = (count) => (count === 1 ? "See its only mode" : `See its ${whole(count)} modes`);

function classRow(data, moment, ids) {
  const known = ids.filter((id) => moment.place[id] !== NONE);
  const mean = (value) => known.reduce((sum, id) => sum + value(id), 0) / Math.max(known.length, 1);
  return el("tr", {}, el("td", { class: "name", textContent: moment.run.name }),
    el("td", { class: "number", textContent: lossText(mean((id) => lossOf(moment, id))) }),
    el("td", { class: "number", textContent: percent(mean((id) => Number(isWrong(data, moment, id)))) }));
}

// Examples that have something in common; of a confusion, what both classes look like as well.
function foundPanel(data, { ids, text, run = 0, classes = [] }) {
  const shown = ids.slice(0, 60);
  return [
    el("h2", { class: "name", text }),
    el("p", { class: "soft", textContent: plural(ids.length, "example") + (ids.length > shown.length ? `, the first ${shown.length}:` : "") }),
    el("div", { class: "grid" }, shown.map((id) => thumb(data, id, pictureSize(data), { run }))),
    ...classes.flatMap((label) => [
      el("h3", { class: "name" }, dot(classColours(data, state.theme)[label]), el("span", { text: `What ${data.classes[label]} looks like` })),
      el("div", { class: "grid" }, typical(data, momentOf(data.runs[run]), label).map((id) => thumb(data, id, pictureSize(data), { run }))),
    ]),
  ];
}

const TYPICAL = 2; // rows of examples of a class

// Those nearest to the centres of a class, the nearest of each of its clusters first.
function typical(data, moment, label) {
  const members = moment.ofClass[label].map((cluster) => moment.members[cluster]);
  const most = TYPICAL * inARow(data);
  return Array.from({ length: most }, (_, rank) => members.map((ids) => ids[rank])).flat().filter((id) => id !== undefined).slice(0, most);
}
