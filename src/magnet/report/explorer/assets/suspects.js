// Suspects: the examples that go worst, as a list to check labels with.

const LISTED = 200;
const suspectsChoice = { run: 0, by: "loss", part: "all" };

function suspects(data, { run: number, by, part }) {
  const run = data.runs[number];
  const score = by === "loss" ? (id) => run.loss[id] : (id) => depth(run.end, id);
  return Array.from(run.end.shown)
    .filter((id) => (part === "all" || PARTS[run.split[id]] === part) && (by === "loss" || score(id) > 0))
    .sort((a, b) => score(b) - score(a))
    .slice(0, LISTED);
}

function suspectsPanel(data) {
  const choice = suspectsChoice;
  const run = data.runs[choice.run];
  const ids = suspects(data, choice);
  const parts = ["all", ...PARTS.filter((_, i) => run.split.includes(i))];
  const pick = (key, pairs, label) => options(el("select", {
    "aria-label": label, onchange: (event) => { choice[key] = event.target.value; change({}, "tab"); },
  }), pairs, choice[key]);
  return [
    el("div", { class: "tools" },
      runChoice(data, choice),
      pick("by", [["loss", "highest loss"], ["depth", "deepest in another class"]], "Order"),
      pick("part", parts.map((part) => [part, part === "all" ? "all parts" : part]), "Part"),
      el("button", { class: "plain", type: "button", id: "export", textContent: "Export CSV", onclick: () => exportSuspects(data, ids, run) })),
    el("p", { class: "soft small", textContent: choice.by === "loss"
      ? `Loss is -log of the probability that ${run.rule} gives to the label.`
      : "How many sigmas nearer an example is to a cluster of another class than to its own cluster." }),
    ids.length ? null : el("p", { textContent: "Nothing to suspect: every example is nearest to its own cluster." }),
    ...ids.map((id) => suspect(data, run, id)),
  ];
}

function suspect(data, run, id) {
  const at = run.end.place[id];
  const other = data.classes[run.end.centres.labels[run.end.impostor[at]]];
  const wrong = run.prediction[id] !== data.labels[id];
  return el("button", {
    class: "item suspect", type: "button", onclick: () => select({ kind: "example", id, run: run.number }),
    onmouseenter: () => preview({ kind: "example", id, run: run.number }), onmouseleave: () => preview(null),
  },
  el("span", { class: "thumb" }, look(data, id, 44)),
  el("div", {},
    el("div", { class: "name" }, el("b", { textContent: data.classes[data.labels[id]] }),
      wrong ? el("span", { class: "bad", textContent: ` → ${data.classes[run.prediction[id]]}` }) : ""),
    el("div", { class: "soft small name", textContent: data.names[id] })),
  el("span", { class: "soft small", textContent: suspectsChoice.by === "loss" ? lossText(run.loss[id]) : `${sigma(depth(run.end, id))} in ${other}` }));
}

function exportSuspects(data, ids, run) {
  const rows = ids.map((id) => [
    data.names[id], data.classes[data.labels[id]], data.classes[run.prediction[id]], PARTS[run.split[id]],
    run.loss[id], depth(run.end, id), run.name,
  ]);
  download("suspects.csv", csv([["path", "label", "prediction", "split", "loss", "depth", "run"], ...rows]));
}
