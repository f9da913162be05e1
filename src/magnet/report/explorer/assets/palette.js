// Colours that stay apart: for a few classes those of Okabe and Ito; of many, neighbours on the map get colours that differ.

const FEW = {
  light: ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7f7f7f", "#332288", "#882255"],
  dark: ["#3f9fe0", "#f0b030", "#1fc79a", "#e29ac4", "#8ed0f7", "#ff7a2e", "#f0e442", "#a9b0b8", "#9d8cff", "#e0608f"],
};
const GREY = { light: "#c3cad3", dark: "#4a5563" };
const FAINT = { light: "#e4e8ed", dark: "#2a323d" };
const INK = { light: "#11161d", dark: "#ffffff" }; // of rings and names on the map
const PAPER = { light: "#ffffff", dark: "#14181f" };
const RAMP = {
  light: ["#c9d6e6", "#8fb3cf", "#e0a458", "#c4571f", "#6b1420"],
  dark: ["#33445c", "#4d7ba3", "#c98a3a", "#ffb066", "#fff0cc"],
};
const LEVELS = { light: [0.56, 0.72, 0.42], dark: [0.7, 0.86, 0.56] };

// OKLCH to #rrggbb, clipped to what a screen can show.
function oklch(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return hex(linear.map((v) => 255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * Math.max(v, 0) ** (1 / 2.4) - 0.055)));
}

function hex(parts) {
  return `#${parts.map((v) => Math.round(Math.min(255, Math.max(0, v))).toString(16).padStart(2, "0")).join("")}`;
}

const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// `count` colours: hues evenly round the circle, in two or three lightnesses, each turned against the last.
function palette(count, theme) {
  if (count <= FEW[theme].length) return FEW[theme].slice(0, count);
  const levels = count > 24 ? 3 : 2;
  const hues = Math.ceil(count / levels);
  return Array.from({ length: count }, (_, i) => {
    const level = i % levels;
    const hue = (2 * Math.PI * (Math.floor(i / levels) + level / levels)) / hues + 0.4;
    return oklch(LEVELS[theme][level] + (count > 60 ? 0.05 * ((i % 5) / 4 - 0.5) : 0), level === 1 ? 0.12 : 0.16, hue);
  });
}

// The colour of each class: the same place in both palettes, so that a class keeps its hue when the theme changes.
function classColours(data, theme) {
  data.colours ??= {};
  data.order ??= assignColours(data, palette(data.classes.length, "light"));
  data.colours[theme] ??= palette(data.classes.length, theme).map((_, label, all) => all[data.order[label]]);
  return data.colours[theme];
}

// Classes are given theirs in turn: the one most unlike those of their neighbours on the map. For each, its place in the palette.
function assignColours(data, colours) {
  const count = colours.length;
  if (count <= FEW.light.length) return colours.map((_, at) => at);
  const middles = data.classes.map((_, label) => classMiddle(data, label));
  const parts = colours.map(rgb);
  const free = new Set(parts.keys());
  const given = new Array(count).fill(NONE);
  const order = [...middles.keys()].sort((a, b) => data.byClass[b].length - data.byClass[a].length);
  for (const label of order) {
    let [best, most] = [NONE, -1];
    for (const colour of free) {
      let least = Infinity;
      for (let other = 0; other < count; other += 1) {
        if (given[other] === NONE) continue;
        const [x, y] = [middles[label][0] - middles[other][0], middles[label][1] - middles[other][1]];
        const [p, q] = [parts[colour], parts[given[other]]];
        const unlike = 2 * (p[0] - q[0]) ** 2 + 4 * (p[1] - q[1]) ** 2 + 3 * (p[2] - q[2]) ** 2;
        least = Math.min(least, unlike * (0.02 + (x * x + y * y) / SQUARE ** 2));
      }
      if (least > most) [best, most] = [colour, least];
    }
    given[label] = best;
    free.delete(best);
  }
  return given;
}

function classMiddle(data, label) {
  const { positions, place } = data.runs[0].end;
  const ids = data.byClass[label];
  const mean = (axis) => ids.reduce((sum, id) => sum + positions[2 * place[id] + axis], 0) / Math.max(ids.length, 1);
  return [mean(0), mean(1)];
}

// The clusters of a class have its hue, each another lightness, so that both can be seen. From the largest cluster on.
function clusterShades(data, moment, theme) {
  const classes = classColours(data, theme);
  const shades = [];
  moment.ofClass.forEach((clusters, label) => {
    const base = rgb(classes[label]);
    clusters.forEach((cluster, k) => {
      const t = clusters.length < 2 ? 0 : k / (clusters.length - 1) - 0.5; // -0.5 .. 0.5
      const end = t > 0 ? [255, 255, 255] : [0, 0, 0];
      shades[cluster] = hex(base.map((v, i) => v + (end[i] - v) * Math.abs(t) * (t > 0 ? 1.15 : 0.9)));
    });
  });
  return shades;
}

function ramp(t, theme) {
  const stops = RAMP[theme];
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const [from, to] = [rgb(stops[low]), rgb(stops[low + 1])];
  return hex(from.map((v, i) => v + (to[i] - v) * (at - low)));
}
