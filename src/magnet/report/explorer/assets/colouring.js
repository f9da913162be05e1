// What colour says: for each way of colouring, the colour of each example of a moment.

const BY_CLASS = ["class", "prediction", "cluster"]; // ways that have a colour for each class
const WRONG = { light: "#d55e00", dark: "#ff7a2e" };
const RIGHT = { light: "#8fb8d8", dark: "#3d6688" };

function colourings(data) {
  const ways = [
    ["class", "class"], ["cluster", "cluster"], ["loss", "loss"], ["prediction", "prediction"],
    ["correct", "errors"], ["split", "split"],
  ];
  return ways.concat(data.attributes.map((attribute, i) => [`attribute ${i}`, attribute.name]));
}

// The 99th percentile of the losses of all runs: the end of the scale, so that one outlier doesn't flatten the rest.
function lossScale(data) {
  const total = data.runs.reduce((sum, run) => sum + run.end.loss.length, 0);
  const all = new Float32Array(total);
  data.runs.reduce((at, run) => { all.set(run.end.loss, at); return at + run.end.loss.length; }, 0);
  all.sort();
  return Math.max(all[Math.floor(0.99 * (total - 1))], 1e-6);
}

// {colours, sizes}: of the examples of a moment, in its order. Sizes are factors.
function paint(data, moment, way, theme) {
  const { run, shown } = moment;
  const classes = classColours(data, theme);
  const each = (colour) => Array.from(shown, colour);
  if (way === "class") return { colours: each((id) => classes[data.labels[id]]) };
  if (way === "prediction") return { colours: each((_, at) => classes[moment.prediction[at]]) };
  if (way === "split") return { colours: each((id) => palette(3, theme)[run.split[id]]) };
  if (way === "loss") return { colours: each((_, at) => ramp(Math.sqrt(moment.loss[at] / data.lossScale), theme)) };
  if (way === "cluster") {
    const shades = clusterShades(data, moment, theme);
    return { colours: each((_, at) => (moment.clusters[at] === NONE ? GREY[theme] : shades[moment.clusters[at]])) };
  }
  if (way === "correct") {
    const right = each((id, at) => moment.prediction[at] === data.labels[id]);
    return { colours: right.map((r) => (r ? RIGHT : WRONG)[theme]), sizes: right.map((r) => (r ? 1 : 1.7)) };
  }
  const attribute = data.attributes[Number(way.split(" ")[1])];
  const known = each((id) => (bit(attribute.known, id) ? bit(attribute.has, id) : 2));
  const tones = [GREY[theme], palette(2, theme)[1], FAINT[theme]];
  return { colours: known.map((s) => tones[s]), sizes: known.map((s) => (s === 1 ? 1.3 : 1)) };
}
