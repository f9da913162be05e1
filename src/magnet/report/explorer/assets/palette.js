// Colours that stay apart: for a few classes those of Okabe and Ito, for many hues and lightnesses spread evenly.

const FEW = {
  light: ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7f7f7f", "#332288", "#882255"],
  dark: ["#3f9fe0", "#f0b030", "#1fc79a", "#e29ac4", "#8ed0f7", "#ff7a2e", "#f0e442", "#a9b0b8", "#9d8cff", "#e0608f"],
};
const GREY = { light: "#c3cad3", dark: "#4a5563" };
const FAINT = { light: "#e4e8ed", dark: "#2a323d" };
const RAMP = {
  light: ["#c9d6e6", "#8fb3cf", "#e0a458", "#c4571f", "#6b1420"],
  dark: ["#33445c", "#4d7ba3", "#c98a3a", "#ffb066", "#fff0cc"],
};

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

function hex(rgb) {
  return `#${rgb.map((v) => Math.round(Math.min(255, Math.max(0, v))).toString(16).padStart(2, "0")).join("")}`;
}

const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

function palette(count, theme) {
  if (count <= FEW[theme].length) return FEW[theme].slice(0, count);
  const levels = theme === "dark" ? [0.72, 0.55, 0.88, 0.63] : [0.58, 0.38, 0.71, 0.48];
  const golden = Math.PI * (3 - Math.sqrt(5)); // neighbours in the list are far apart on the circle of hues
  return Array.from({ length: count }, (_, i) => oklch(levels[i % 4], i % 4 === 2 ? 0.11 : 0.15, i * golden));
}

function ramp(t, theme) {
  const stops = RAMP[theme];
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const [from, to] = [rgb(stops[low]), rgb(stops[low + 1])];
  return hex(from.map((v, i) => v + (to[i] - v) * (at - low)));
}
