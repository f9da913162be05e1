// The panel of one example: what it is taken for, what it is shown beside, its probabilities and its neighbours.

function examplePanel(data, { id, run: number = 0 }) {
  const label = data.labels[id];
  const active = data.runs[number];
  const moment = momentFor(active, id);
  return [
    el("div", { class: "row" },
      el("button", { type: "button", class: "thumb", id: "enlarge", "aria-label": "Show it large", onclick: () => openViewer(data, id) }, look(data, id, data.pictures.kind === "features" ? 84 : 160)),
      el("div", {},
        el("h2", {}, dot(classColours(data, state.theme)[label]), el("button", {
          class: "link name", type: "button", text: data.classes[label],
          onclick: () => select({ kind: "class", label }, "Modes"),
        })),
        takenFor(data, moment, id), heldOut(data, active, moment, id),
        el("div", { class: "soft name small", text: data.titles[id] }),
        el("div", { class: "soft small", textContent: PART_WORDS[active.split[id]] }))),
    markTools(data, id, data.classes[otherClass(data, active, id)]),
    momentNote(active, moment),
    sides(data, active, id),
    featuresTable(data, active, id),
    data.runs.map((run) => verdict(data, run, id)),
    data.runs.map((run) => [
      el("h3", { textContent: data.runs.length > 1 ? `Nearest in ${run.name}` : "Nearest neighbours" }),
      el("div", { class: "grid" }, neighbours(data, run, id)),
    ]),
  ].flat(3);
}

// "labelled beagle, taken for basset hound (92 %)"
function takenFor(data, moment, id) {
  const at = moment.place[id];
  const share = percent(moment.best.probabilities[at * moment.best.count] / 65535);
  const name = data.classes[moment.prediction[at]];
  return isWrong(data, moment, id)
    ? el("p", { class: "bad name", text: `labelled ${data.classes[data.labels[id]]}, taken for ${name} (${share})` })
    : el("p", { class: "good", textContent: `recognised (${share})` });
}

function momentNote(run, moment) {
  const shown = momentOf(run);
  if (shown.evaluated) return null;
  const text = shown === moment
    ? `As it was at ${stepText(run, moment)}.`
    : `The refresh at step ${whole(shown.step)} holds the training part only: this is ${stepText(run, moment)}.`;
  return el("p", { class: "note small", textContent: text });
}

// The class that a doubtful example may be of instead; of others, the best one that is not its label.
function otherClass(data, run, id) {
  const at = run.doubtful.get(id);
  if (at !== undefined) return run.contrast.other[at];
  const { best, place } = run.end;
  const [first, second] = best.classes.subarray(place[id] * best.count, place[id] * best.count + 2);
  return first !== data.labels[id] || second === undefined ? first : second;
}

const DOUBT = 0.2; // held-out loss from which an example that is recognised is shown beside another class

// The most similar examples of the own class and of the other one, side by side.
function sides(data, run, id) {
  const at = run.doubtful.get(id);
  if (at === undefined || !momentOf(run).evaluated) return null;
  if (!isWrong(data, run.end, id) && run.heldOut.loss[id] < DOUBT) return null;
  const { beside, ofOwn, ofOther, other } = run.contrast;
  const side = (label, ids) => el("div", {},
    el("p", { class: "name title" }, dot(classColours(data, state.theme)[label]), el("span", { text: `Most like it in ${data.classes[label]}` })),
    el("div", { class: "grid" }, Array.from(ids.subarray(at * beside, (at + 1) * beside)).filter((one) => one !== NONE)
      .map((one) => thumb(data, one, data.pictures.kind === "features" ? 46 : narrow() ? 82 : 88, { run: run.number }))));
  return el("div", { class: "sides", id: "sides" }, side(data.labels[id], ofOwn), side(other[at], ofOther));
}

function verdict(data, run, id) {
  const moment = momentFor(run, id);
  const { count, classes, probabilities } = moment.best;
  const at = moment.place[id];
  const bars = Array.from({ length: count }, (_, i) => [classes[at * count + i], probabilities[at * count + i] / 65535])
    .filter(([, p], i) => i === 0 || p >= 0.0005)
    .map(([label, p]) => el("div", { class: "bar" },
      el("i", { style: { width: `${100 * p}%` } }),
      el("span", { class: "name", text: data.classes[label] }), el("span", { textContent: percent(p) })));
  const rule = `${moment.evaluated ? run.rule : "kNC"}, loss ${lossText(lossOf(moment, id))}`;
  return [
    el("h3", {}, `${data.runs.length > 1 ? run.name : "Probabilities"} `,
      el("span", { class: "soft", textContent: rule }),
      isWrong(data, moment, id) ? el("span", { class: "bad", textContent: "  wrong" }) : ""),
    ...bars, clusterLinks(data, moment, id),
  ];
}

// Of a training example, which takes part in the rule that recognises it: the judgement of the others.
function heldOut(data, run, moment, id) {
  if (!moment.evaluated || PARTS[run.split[id]] !== "train") return null;
  const likely = run.heldOut.suggestion[id];
  return el("p", { class: "small held-out" }, "left out of the votes: ",
    likely === data.labels[id] ? "recognised" : ["looks like ", el("b", { class: "bad name", text: data.classes[likely] })],
    `, loss ${lossText(run.heldOut.loss[id])}`);
}

function clusterLinks(data, moment, id) {
  const at = moment.place[id];
  const link = (cluster, distance) => [clusterLink(data, moment, cluster), ` ${sigma(distance)}`];
  const own = moment.clusters[at];
  return el("p", { class: "small soft" },
    own === NONE ? "its class has no cluster" : ["in ", ...link(own, moment.own[at])],
    el("br"), "nearest impostor ", ...link(moment.impostor[at], moment.impostorDistance[at]));
}

function clusterLink(data, moment, cluster, text = modeName(data, moment, cluster)) {
  return el("button", { class: "link name", text, ...choosing({ kind: "cluster", moment, cluster }) });
}

function neighbours(data, run, id) {
  const moment = momentFor(run, id);
  const { count, ids, distances } = moment.neighbours;
  const start = moment.place[id] * count;
  return Array.from({ length: count }, (_, i) => start + i).map((at) =>
    thumb(data, ids[at], pictureSize(data), {
      note: distances[at].toFixed(2), odd: data.labels[ids[at]] !== data.labels[id], run: run.number,
    }));
}
