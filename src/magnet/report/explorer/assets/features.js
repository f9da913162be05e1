// Tables: features by name with their true values, and how far an example or a cluster is from its company.

const MOST_APART = 6; // features that set a cluster apart
const MOST_FEATURES = 32; // of an example at once; the rest are a click away

// [name, value] of the features of an example, as numbers for people; nothing for pictures.
function features({ pictures }, id) {
  if (pictures.kind !== "features") return [];
  const { values, columns, names } = pictures;
  return columns.map((column, i) => [names ? names[i] : `column ${column}`, exact(values[id * columns.length + i])]);
}

function featuresText(data, id) {
  const all = features(data, id);
  return all.slice(0, 4).map(([name, value]) => `${name} ${value}`).join(", ") + (all.length > 4 ? ", …" : "");
}

// The mean of each feature over some examples.
function featureMeans({ pictures: { values, columns } }, ids) {
  const count = columns.length;
  const mean = new Float64Array(count);
  for (const id of ids) for (let i = 0; i < count; i += 1) mean[i] += values[id * count + i];
  return mean.map((sum) => sum / ids.length);
}

// A bar from the middle, three standard deviations to either side.
function deviation(t, kind, title) {
  const size = Math.min(Math.abs(t) / 3, 1) * 50;
  return el("span", { class: `deviation ${kind}`, title },
    el("i", { style: { left: `${t < 0 ? 50 - size : 50}%`, width: `${size}%` } }));
}

// All features of an example: value, and its distance from the means of its cluster and its class.
function featuresTable(data, run, id) {
  const all = features(data, id);
  if (!all.length) return [];
  const { width, values, columns, spread } = data.pictures;
  const moment = momentFor(run, id);
  const cluster = moment.clusters[moment.place[id]];
  const ofClass = featureMeans(data, data.byClass[data.labels[id]]);
  const alone = moment.ofClass[data.labels[id]].length < 2; // the cluster is the class
  const ofCluster = cluster === NONE || alone ? null : featureMeans(data, moment.members[cluster]);
  const from = (mean, i) => (spread[i] > 0 ? (values[id * columns.length + i] - mean[i]) / spread[i] : 0);
  const row = (i) => el("tr", {},
    el("td", { class: "name", text: all[i][0] }), el("td", { class: "number", textContent: all[i][1] }),
    el("td", {}, ofCluster ? deviation(from(ofCluster, i), "", `${signed(from(ofCluster, i))} from its cluster`) : "",
      deviation(from(ofClass, i), "class", `${signed(from(ofClass, i))} from its class`)));
  const order = [...all.keys()]; // of many, what is unusual first
  if (order.length > MOST_FEATURES) order.sort((a, b) => Math.abs(from(ofClass, b)) - Math.abs(from(ofClass, a)));
  const table = el("table", { id: "features", class: "features" }, order.slice(0, MOST_FEATURES).map(row));
  const note = [all.length < width ? ` ${whole(all.length)} of ${whole(width)}` : "", order.length > MOST_FEATURES ? ", the furthest from its class first" : ""].join("");
  return [
    el("h3", {}, "Values", el("span", { class: "soft", textContent: note })),
    el("p", { class: "soft small" }, ofCluster ? el("i", { class: "swatch" }) : "", ofCluster ? " from the mean of its cluster, " : "",
      el("i", { class: "swatch class" }), " from the mean of its class; up to 3 standard deviations of the feature."),
    table,
    order.length > MOST_FEATURES ? el("button", {
      class: "plain", type: "button", id: "more-features", textContent: `Show ${whole(order.length - MOST_FEATURES)} more`,
      onclick: (event) => { table.append(...order.slice(MOST_FEATURES).map(row)); event.currentTarget.remove(); },
    }) : null,
  ];
}

// [deviations, name, mean here, mean there] of the features, the means of which over two groups differ most first.
// `others` null: all that are not among `ids`, whose means follow from those of all.
function apart(data, ids, others) {
  const { columns, names, spread, mean } = data.pictures;
  const here = featureMeans(data, ids);
  const there = others ? featureMeans(data, others) : here.map((v, i) => (mean[i] * data.count - v * ids.length) / (data.count - ids.length));
  return columns.map((column, i) => [spread[i] > 0 ? (here[i] - there[i]) / spread[i] : 0, names ? names[i] : `column ${column}`, here[i], there[i]])
    .sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
}

const ALL_OTHERS = [null, "the other classes"];

// The members of a cluster, the rest of its class or, of the only cluster of a class, all others, and a name for these.
function sidesOf(data, moment, cluster) {
  const label = moment.centres.labels[cluster];
  const mine = new Set(moment.members[cluster]);
  const kin = data.byClass[label].filter((id) => !mine.has(id));
  return kin.length ? [[...mine], kin, `other ${data.classes[label]}`] : [[...mine], ...ALL_OTHERS];
}

// What sets a cluster or a class of a table apart.
function featuresApart(data, ids, others, name) {
  if (data.pictures.kind !== "features" || !ids.length || ids.length === data.count) return [];
  return [
    el("h3", { textContent: `What sets it apart from ${name}` }),
    el("table", { id: "apart", class: "features" }, apart(data, ids, others).slice(0, MOST_APART).map(([t, feature, here, there]) => el("tr", {},
      el("td", { class: "name", text: feature }),
      el("td", { class: "number", textContent: rough(here, there).join(" against ") }),
      el("td", {}, deviation(t, "", `${signed(t)} standard deviations`))))),
  ];
}

// The same of a cluster, in a few words: "higher proline, lower hue".
function apartWords(data, moment, cluster) {
  if (data.pictures.kind !== "features" || !moment.members[cluster].length) return "";
  const [ids, others] = sidesOf(data, moment, cluster);
  return apart(data, ids, others).slice(0, 3).map(([t, feature]) => `${t < 0 ? "lower" : "higher"} ${feature}`).join(", ");
}
