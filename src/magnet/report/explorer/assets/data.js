// The data of the page, with its arrays unpacked.

const PARTS = ["train", "validation", "test"];
const NONE = -1;

function unpack(value) {
  if (Array.isArray(value)) return value.map(unpack);
  if (value === null || typeof value !== "object") return value;
  if ("base64" in value && "type" in value) {
    const text = atob(value.base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
    return new globalThis[value.type](bytes.buffer);
  }
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unpack(inner)]));
}

function bit(bytes, i) {
  return (bytes[i >> 3] >> (7 - (i & 7))) & 1;
}

function readData() {
  const data = unpack(JSON.parse(byId("data").textContent));
  data.count = data.names.length;
  data.runs.forEach((run, number) => {
    run.number = number;
    run.end = run.moments.at(-1);
    run.moments.forEach((moment) => prepareMoment(moment, data, run));
  });
  return data;
}

// Lists that are asked for often: where an example stands in a moment, the members of each cluster, nearest first.
function prepareMoment(moment, data, run) {
  moment.run = run;
  moment.place = new Int32Array(data.count).fill(NONE);
  moment.shown.forEach((id, at) => { moment.place[id] = at; });
  moment.members = Array.from(moment.centres.labels, () => []);
  moment.clusters.forEach((cluster, at) => { if (cluster !== NONE) moment.members[cluster].push(moment.shown[at]); });
  moment.members.forEach((ids) => ids.sort((a, b) => moment.own[moment.place[a]] - moment.own[moment.place[b]]));
  moment.ofClass = data.classes.map(() => []);
  moment.centres.labels.forEach((label, cluster) => moment.ofClass[label].push(cluster));
  moment.ofClass.forEach((clusters) => clusters.sort((a, b) => moment.centres.sizes[b] - moment.centres.sizes[a]));
}

// How many sigmas an example is nearer to a cluster of another class than to its own; positive: inside the other.
function depth(moment, id) {
  const at = moment.place[id];
  return moment.clusters[at] === NONE ? 0 : moment.own[at] - moment.impostorDistance[at];
}

function modeName(data, moment, cluster) {
  const label = moment.centres.labels[cluster];
  const modes = moment.ofClass[label];
  return `${data.classes[label]} · mode ${modes.indexOf(cluster) + 1} of ${modes.length}`;
}

function clusterFacts(data, moment, cluster) {
  const members = moment.members[cluster];
  const mean = (value) => (members.length ? members.reduce((sum, id) => sum + value(id), 0) / members.length : 0);
  const run = moment.run;
  return {
    spread: Math.sqrt(mean((id) => moment.own[moment.place[id]] ** 2)),
    loss: mean((id) => run.loss[id]),
    wrong: mean((id) => Number(run.prediction[id] !== data.labels[id])),
  };
}
