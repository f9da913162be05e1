// The modes of a class: its clusters side by side, as rows of exemplars.

const ROWS = 4; // of exemplars that fill the panel
const modesChoice = { label: 0, run: 0 };

function modesPanel(data) {
  if (state.selection?.kind === "class") modesChoice.label = state.selection.label;
  const run = data.runs[modesChoice.run];
  const moment = momentOf(run);
  const { label } = modesChoice;
  const clusters = moment.ofClass[label];
  const total = clusters.reduce((sum, cluster) => sum + moment.centres.sizes[cluster], 0);
  return [
    el("div", { class: "tools" },
      options(el("select", {
        id: "modes-class", "aria-label": "Class", onchange: (event) => select({ kind: "class", label: Number(event.target.value) }, "Modes"),
      }), data.classes.map((name, i) => [i, name]), label),
      runChoice(data, modesChoice)),
    momentNote(run, moment),
    el("p", { class: "soft", textContent: modesText(clusters.length, total) }),
    ...clusters.map((cluster, k) => el("div", { class: "mode" },
      el("div", {}, clusterLink(data, moment, cluster, `Mode ${k + 1}`), el("span", { class: "soft small", textContent:
        ` ${plural(moment.centres.sizes[cluster], "example")}, spread ${sigma(clusterFacts(data, moment, cluster).spread)}` }),
      el("div", { class: "soft small name", text: apartWords(data, moment, cluster) })),
      exemplars(data, moment, cluster, inARow(data) * Math.max(1, Math.floor(ROWS / clusters.length))))),
  ];
}

function modesText(count, total) {
  if (!count) return "The class has no training examples, so it has no clusters.";
  return count === 1 ? `The run has all ${plural(total, "training example")} of this class in one cluster.`
    : `${whole(count)} clusters of ${plural(total, "training example")}: the variation inside the class that the run found.`;
}

function runChoice(data, choice) {
  if (data.runs.length < 2) return null;
  return options(el("select", {
    "aria-label": "Run", onchange: (event) => { choice.run = Number(event.target.value); change({}, "tab"); },
  }), data.runs.map((run) => [run.number, run.name]), choice.run);
}
