// What colour says: for each way of colouring, the colour of each example of a moment, and the legend.

const WRONG = { light: "#d55e00", dark: "#ff7a2e" };
const RIGHT = { light: "#8fb8d8", dark: "#3d6688" };

function colourings(data) {
  const ways = [
    ["class", "class"], ["cluster", "cluster"], ["loss", "loss"], ["prediction", "prediction"],
    ["correct", "correctness"], ["split", "split"],
  ];
  return ways.concat(data.attributes.map((attribute, i) => [`attribute ${i}`, attribute.name]));
}

// The 99th percentile of the losses of all runs: the end of the scale, so that one outlier doesn't flatten the rest.
function lossScale(data) {
  const all = data.runs.flatMap((run) => Array.from(run.loss)).sort((a, b) => a - b);
  return Math.max(all[Math.floor(0.99 * (all.length - 1))], 1e-6);
}

// {colours, sizes}: of the examples of a moment, in its order. Sizes are factors.
function paint(data, moment, way, theme) {
  const { run, shown } = moment;
  const classes = palette(data.classes.length, theme);
  const each = (colour) => Array.from(shown, colour);
  if (way === "class") return { colours: each((id) => classes[data.labels[id]]) };
  if (way === "prediction") return { colours: each((id) => classes[run.prediction[id]]) };
  if (way === "split") return { colours: each((id) => palette(3, theme)[run.split[id]]) };
  if (way === "loss") {
    const scale = data.lossScale ?? (data.lossScale = lossScale(data));
    return { colours: each((id) => ramp(Math.sqrt(run.loss[id] / scale), theme)) };
  }
  if (way === "cluster") {
    const shades = clusterShades(data, moment, theme);
    return { colours: each((_, at) => (moment.clusters[at] === NONE ? GREY[theme] : shades[moment.clusters[at]])) };
  }
  if (way === "correct") {
    const right = each((id) => run.prediction[id] === data.labels[id]);
    return { colours: right.map((r) => (r ? RIGHT : WRONG)[theme]), sizes: right.map((r) => (r ? 1 : 1.7)) };
  }
  const attribute = data.attributes[Number(way.split(" ")[1])];
  const state = each((id) => (bit(attribute.known, id) ? bit(attribute.has, id) : 2));
  const tones = [GREY[theme], palette(2, theme)[1], FAINT[theme]];
  return { colours: state.map((s) => tones[s]), sizes: state.map((s) => (s === 1 ? 1.3 : 1)) };
}

// The clusters of a class have its hue, each another lightness, so that both can be seen.
function clusterShades(data, moment, theme) {
  const classes = palette(data.classes.length, theme);
  const shades = [];
  moment.ofClass.forEach((clusters, label) => {
    const base = rgb(classes[label]);
    clusters.forEach((cluster, k) => {
      const t = clusters.length < 2 ? 0 : k / (clusters.length - 1) - 0.5; // -0.5 .. 0.5
      const end = t > 0 ? [255, 255, 255] : [0, 0, 0];
      shades[cluster] = hex(base.map((v, i) => v + (end[i] - v) * Math.abs(t) * 1.1));
    });
  });
  return shades;
}
