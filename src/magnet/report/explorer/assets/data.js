// The data of the page, with its arrays unpacked.

const PARTS = ["train", "validation", "test"]; // as in files
const PART_WORDS = ["training part", "validation part", "test part"];
const NONE = -1;

function unpack(value) {
  if (Array.isArray(value)) return typeof value[0] === "object" ? value.map(unpack) : value;
  if (value === null || typeof value !== "object") return value;
  if ("type" in value && "base64" in value) return unpackArray(value.type, [value.base64]);
  if ("type" in value && "parts" in value) return unpackParts(value);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unpack(inner)]));
}

const arraysBeside = new Map(); // by their first part: equal arrays lie beside the page once

// An array in parts beside the page, which scripts have put into `magnetParts`.
function unpackParts({ type, parts }) {
  if (!arraysBeside.has(parts[0])) arraysBeside.set(parts[0], unpackArray(type, parts.map(takePart)));
  return arraysBeside.get(parts[0]);
}

function unpackArray(type, encoded) {
  const texts = encoded.map(atob);
  if (type === "Text") return JSON.parse(texts.join(""));
  const bytes = new Uint8Array(texts.reduce((sum, text) => sum + text.length, 0));
  let at = 0;
  for (const text of texts) for (let i = 0; i < text.length; i += 1, at += 1) bytes[at] = text.charCodeAt(i);
  return new globalThis[type](bytes.buffer);
}

function takePart(name) {
  const part = globalThis.magnetParts?.[name];
  if (part === undefined) {
    document.body.replaceChildren(el("p", { class: "missing", textContent:
      "The data of this page is not beside it: the page and the folder “data” belong together. Copy all of the folder, or make the page again with magnet explore." }));
    throw new Error("a part of the data is missing");
  }
  delete globalThis.magnetParts[name];
  return part;
}

function bit(bytes, i) {
  return (bytes[i >> 3] >> (7 - (i & 7))) & 1;
}

function readData() {
  const data = unpack(JSON.parse(byId("data").textContent));
  data.count = data.names.length;
  data.titles = data.kind === "vectors" ? data.names.map((name) => (/^\d+$/.test(name) ? `row ${name}` : name)) : data.names;
  data.byClass = data.classes.map(() => []);
  data.labels.forEach((label, id) => data.byClass[label].push(id));
  data.runs.forEach((run, number) => {
    run.number = number;
    run.end = run.moments.find((moment) => moment.evaluated);
    run.moments.forEach((moment) => prepareMoment(moment, data, run));
    run.crowd &&= sortCrowd(run.crowd);
    run.doubtful = new Map(Array.from(run.contrast.ids, (id, at) => [id, at]));
  });
  return data;
}

// Lists that are asked for often: where an example stands in a moment, the members of each cluster, nearest first.
function prepareMoment(moment, data, run) {
  moment.run = run;
  moment.place = new Int32Array(data.count).fill(NONE);
  moment.shown.forEach((id, at) => { moment.place[id] = at; });
  moment.prediction = Int32Array.from(moment.shown, (_, at) => moment.best.classes[at * moment.best.count]);
  moment.members = Array.from(moment.centres.labels, () => []);
  moment.clusters.forEach((cluster, at) => { if (cluster !== NONE) moment.members[cluster].push(moment.shown[at]); });
  moment.members.forEach((ids) => ids.sort((a, b) => moment.own[moment.place[a]] - moment.own[moment.place[b]]));
  moment.ofClass = data.classes.map(() => []);
  moment.centres.labels.forEach((label, cluster) => moment.ofClass[label].push(cluster));
  moment.ofClass.forEach((clusters) => clusters.sort((a, b) => moment.centres.sizes[b] - moment.centres.sizes[a]));
}

// The moment that the map of a run shows, and the one that can speak of an example: kept refreshes hold the training part.
const momentOf = (run) => maps[run.number]?.moment ?? run.end;
const momentFor = (run, id) => (momentOf(run).place[id] === NONE ? run.end : momentOf(run));

const lossOf = (moment, id) => moment.loss[moment.place[id]];
const predictionOf = (moment, id) => moment.prediction[moment.place[id]];
const isWrong = (data, moment, id) => predictionOf(moment, id) !== data.labels[id];

// How doubtful a label is, and what the example looks like: where the map shows the evaluated step, by votes that had no
// part in the example (`magnet suspects`); of a kept refresh, its own loss and prediction.
const doubtOf = (run, id) => (momentOf(run).evaluated ? run.heldOut.loss[id] : lossOf(momentFor(run, id), id));
const looksLike = (run, id) => (momentOf(run).evaluated ? run.heldOut.suggestion[id] : predictionOf(momentFor(run, id), id));

// How many sigmas an example is nearer to a cluster of another class than to its own; positive: inside the other.
function depth(moment, id) {
  const at = moment.place[id];
  return moment.clusters[at] === NONE ? 0 : moment.own[at] - moment.impostorDistance[at];
}

function modeName(data, moment, cluster) {
  const label = moment.centres.labels[cluster];
  const modes = moment.ofClass[label];
  return modes.length === 1 ? data.classes[label] : `${data.classes[label]}, mode ${modes.indexOf(cluster) + 1} of ${modes.length}`;
}

function clusterFacts(data, moment, cluster) {
  const members = moment.members[cluster];
  const mean = (value) => (members.length ? members.reduce((sum, id) => sum + value(id), 0) / members.length : 0);
  return {
    spread: Math.sqrt(mean((id) => moment.own[moment.place[id]] ** 2)),
    loss: mean((id) => lossOf(moment, id)),
    wrong: mean((id) => Number(isWrong(data, moment, id))),
  };
}

// In words: where the map of a run stands.
function stepText(run, moment) {
  return `step ${whole(moment.step)} of ${whole(run.steps)}${moment.evaluated ? ", evaluated" : ""}`;
}
