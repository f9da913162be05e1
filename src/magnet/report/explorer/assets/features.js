// Tables: features by name with their true values, and how far an example or a cluster is from its company.

const MOST_APART = 6; // features that set a cluster apart

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

// Mean and standard deviation of each feature over some examples.
function featureMoments({ pictures: { values, columns } }, ids) {
  const count = columns.length;
  const [mean, spread] = [new Float64Array(count), new Float64Array(count)];
  for (const id of ids) for (let i = 0; i < count; i += 1) mean[i] += values[id * count + i] / ids.length;
  for (const id of ids) for (let i = 0; i < count; i += 1) spread[i] += (values[id * count + i] - mean[i]) ** 2 / ids.length;
  return { mean, spread: spread.map(Math.sqrt) };
}

function overallSpread(data) {
  data.spread ??= featureMoments(data, Array.from({ length: data.count }, (_, id) => id)).spread;
  return data.spread;
}

// A name that is rather broken after an underscore than anywhere.
function breakable(name) {
  return el("span", { class: "name" }, name.split(/(?<=_)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part])));
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
  const { width, values, columns } = data.pictures;
  const moment = momentFor(run, id);
  const cluster = moment.clusters[moment.place[id]];
  const spread = overallSpread(data);
  const ofClass = featureMoments(data, data.byClass[data.labels[id]]).mean;
  const ofCluster = cluster === NONE ? null : featureMoments(data, moment.members[cluster]).mean;
  const from = (mean, i) => (spread[i] > 0 ? (values[id * columns.length + i] - mean[i]) / spread[i] : 0);
  const note = all.length < width ? ` ${all.length} of ${whole(width)}` : "";
  return [
    el("h3", {}, "Values", el("span", { class: "soft", textContent: note })),
    el("p", { class: "soft small" }, ofCluster ? el("i", { class: "swatch" }) : "", ofCluster ? " from the mean of its cluster, " : "",
      el("i", { class: "swatch class" }), " from the mean of its class; up to 3 standard deviations of the feature."),
    el("table", { id: "features", class: "features" }, all.map(([name, value], i) => el("tr", {},
      el("td", {}, breakable(name)), el("td", { class: "number", textContent: value }),
      el("td", {}, ofCluster ? deviation(from(ofCluster, i), "", `${signed(from(ofCluster, i))} from its cluster`) : "",
        deviation(from(ofClass, i), "class", `${signed(from(ofClass, i))} from its class`))))),
  ];
}

// What sets a cluster apart: the features whose mean is furthest from that of the rest of the class, or of all others.
function featuresApart(data, moment, cluster) {
  if (data.pictures.kind !== "features" || !moment.members[cluster].length) return [];
  const label = moment.centres.labels[cluster];
  const mine = new Set(moment.members[cluster]);
  const kin = data.byClass[label].filter((id) => !mine.has(id));
  const others = kin.length ? kin : Array.from({ length: data.count }, (_, id) => id).filter((id) => !mine.has(id));
  const [here, there] = [featureMoments(data, [...mine]).mean, featureMoments(data, others).mean];
  const spread = overallSpread(data);
  const { columns, names } = data.pictures;
  const apart = columns.map((column, i) => [i, spread[i] > 0 ? (here[i] - there[i]) / spread[i] : 0, names ? names[i] : `column ${column}`])
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, MOST_APART);
  return [
    el("h3", { textContent: `What sets it apart from ${kin.length ? `other ${data.classes[label]}` : "the other classes"}` }),
    el("table", { id: "apart", class: "features" }, apart.map(([i, t, name]) => el("tr", {},
      el("td", {}, breakable(name)),
      el("td", { class: "number", textContent: `${rough(here[i])} against ${rough(there[i])}` }),
      el("td", {}, deviation(t, "", `${signed(t)} standard deviations`))))),
  ];
}
