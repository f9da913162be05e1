// Numbers for people.

const whole = (n) => n.toLocaleString("en");
const percent = (p) => (p > 0 && p < 0.001 ? "<\u00a00.1\u00a0%" : `${(100 * p).toFixed(1)}\u00a0%`);
const sigma = (d) => `${d.toFixed(d < 10 ? 2 : 1)} σ`;
const lossText = (l) => (l === 0 ? "0" : l < 0.01 ? "< 0.01" : l.toFixed(l < 10 ? 2 : 1));
// A single-precision number with all digits that it holds for certain, and none that it makes up.
const exact = (v) => String(Number.isInteger(v) && Math.abs(v) < 2 ** 24 ? v : Number(v.toPrecision(6)));
// Two numbers with three digits that count, and as many after the point in both.
function rough(...values) {
  const short = values.map((v) => String(Number(v.toPrecision(3))));
  if (short.some((text) => text.includes("e"))) return short;
  const most = Math.max(...short.map((text) => (text.split(".")[1] ?? "").length));
  return values.map((v, i) => (most ? v.toFixed(most) : short[i]));
}
const signed = (t) => `${t < 0 ? "−" : "+"}${Math.abs(t).toFixed(1)}`;
const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
