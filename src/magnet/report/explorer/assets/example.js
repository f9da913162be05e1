// The panel of one example: what each run makes of it, its probabilities and its neighbours.

function examplePanel(data, { id, run: number = 0 }) {
  const classes = palette(data.classes.length, state.theme);
  const label = data.labels[id];
  const active = data.runs[number];
  return [
    el("div", { class: "row" }, el("div", { class: "thumb" }, look(data, id, 120)), el("div", {},
      el("h2", {}, dot(classes[label]), el("button", {
        class: "link name", type: "button", textContent: data.classes[label],
        onclick: () => select({ kind: "class", label }, "Modes"),
      })),
      el("div", { class: "soft name", textContent: data.names[id] }),
      el("div", { class: "soft", textContent: `${PARTS[active.split[id]]} part` }),
      el("div", { class: "soft small name", textContent: featuresText(data, id) }))),
    data.runs.map((run) => verdict(data, run, id)),
    data.runs.map((run) => [
      el("h3", { textContent: data.runs.length > 1 ? `Nearest in ${run.name}` : "Nearest neighbours" }),
      el("div", { class: "grid" }, neighbours(data, run, id)),
    ]),
    featuresTable(data, id),
  ].flat(3);
}

function verdict(data, run, id) {
  const { count, classes, probabilities } = run.best;
  const right = run.prediction[id] === data.labels[id];
  const bars = Array.from({ length: count }, (_, i) => [classes[id * count + i], probabilities[id * count + i]])
    .filter(([, p], i) => i === 0 || p >= 0.0005)
    .map(([label, p]) => el("div", { class: "bar" },
      el("i", { style: { width: `${100 * p}%` } }),
      el("span", { class: "name", textContent: data.classes[label] }), el("span", { textContent: percent(p) })));
  const rule = `${run.rule}, loss ${lossText(run.loss[id])}`;
  return [
    el("h3", {}, `${data.runs.length > 1 ? run.name : "Probabilities"} `,
      el("span", { class: "soft", textContent: rule }),
      right ? "" : el("span", { class: "bad", textContent: "  wrong" })),
    ...bars, clusterLinks(data, run, id),
  ];
}

function clusterLinks(data, run, id) {
  const moment = run.end;
  const at = moment.place[id];
  const link = (cluster, distance) => [clusterLink(data, moment, cluster), ` ${sigma(distance)}`];
  const own = moment.clusters[at];
  return el("p", { class: "small soft" },
    own === NONE ? "its class has no cluster" : ["in ", ...link(own, moment.own[at])],
    el("br"), "nearest impostor ", ...link(moment.impostor[at], moment.impostorDistance[at]));
}

function clusterLink(data, moment, cluster) {
  return el("button", {
    class: "link name", type: "button", textContent: modeName(data, moment, cluster),
    onclick: () => select({ kind: "cluster", moment, cluster }),
    onmouseenter: () => preview({ kind: "cluster", moment, cluster }),
    onmouseleave: () => preview(null),
  });
}

function neighbours(data, run, id) {
  const { count, ids, distances } = run.neighbours;
  return Array.from({ length: count }, (_, i) => id * count + i).map((at) =>
    thumb(data, ids[at], 56, {
      note: distances[at].toFixed(2), odd: data.labels[ids[at]] !== data.labels[id], run: run.number,
    }));
}
