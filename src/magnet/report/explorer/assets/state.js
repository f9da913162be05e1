// What is chosen, and who wants to know when that changes.

const state = {
  way: "class", // of colouring
  theme: "light",
  time: 0, // on the slider
  names: true,
  regions: true,
  centres: true,
  selection: null, // {kind: "example", id, run} | {kind: "cluster", moment, cluster} | {kind: "class", label} | {kind: "found", ids, text}
  preview: null, // the same, while the mouse rests on something
  tab: "Summary",
};
const listeners = {};

function on(names, act) {
  names.split(" ").forEach((name) => (listeners[name] ??= []).push(act));
}

function change(changes, ...names) {
  Object.assign(state, changes);
  names.forEach((name) => (listeners[name] ?? []).forEach((act) => act()));
}

// Selecting is what clicks do; how long it takes is kept for the tests.
function select(selection, tab = "Selection") {
  const start = performance.now();
  change({ selection, preview: null, tab }, "selection", "tab");
  globalThis.magnet.lastClickMs = performance.now() - start;
}

function preview(selection) {
  change({ preview: selection }, "preview");
}

// Of a button: a click chooses, and while the mouse rests on it the map shows what it would choose.
const choosing = (selection) => ({
  type: "button", onclick: () => select(selection), onmouseenter: () => preview(selection), onmouseleave: () => preview(null),
});

// The examples that a selection is about; null for none.
function idsOf(data, selection) {
  if (!selection) return null;
  if (selection.kind === "class") return data.byClass[selection.label];
  if (selection.kind === "cluster") return selection.moment.members[selection.cluster];
  if (selection.kind === "found") return selection.ids;
  const moment = momentFor(data.runs[selection.run ?? 0], selection.id);
  const { count, ids } = moment.neighbours;
  const at = moment.place[selection.id];
  return [...ids.subarray(at * count, (at + 1) * count), selection.id];
}
