// Numbers for people.

const whole = (n) => n.toLocaleString("en");
const percent = (p) => (p > 0 && p < 0.001 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`);
const sigma = (d) => `${d.toFixed(d < 10 ? 2 : 1)} σ`;
const lossText = (l) => (l === 0 ? "0" : l < 0.01 ? "< 0.01" : l.toFixed(l < 10 ? 2 : 1));
const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
