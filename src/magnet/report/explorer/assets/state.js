// What is chosen, and who wants to know when that changes.

const state = {
  way: "class", // of colouring
  theme: "light",
  time: 0, // on the slider
  regions: true,
  centres: true,
  selection: null, // {kind: "example", id} | {kind: "cluster", moment, cluster} | {kind: "class", label}
  preview: null, // the same, while the mouse rests on something in a list
  tab: "Selection",
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

// The examples that a selection is about: {strong: ids to draw, mark: the one in the middle}. The same photos in all maps.
function idsOf(data, selection) {
  if (!selection) return null;
  if (selection.kind === "class") return { strong: data.byClass[selection.label], mark: NONE };
  if (selection.kind === "cluster") return { strong: selection.moment.members[selection.cluster], mark: NONE };
  if (selection.kind === "found") return { strong: selection.ids, mark: NONE };
  const run = data.runs[selection.run ?? 0];
  const { count, ids } = run.neighbours;
  return { strong: [...ids.subarray(selection.id * count, (selection.id + 1) * count), selection.id], mark: selection.id };
}
