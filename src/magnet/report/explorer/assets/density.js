// Class densities: where a class is the densest one, and where each class has its peaks.

const CELLS = BINS;
const PEAKS = 6; // of a class at most
const APART = 11; // cells between two peaks of a class
const MAJORITY = 4; // examples that decide the class of a cell; fewer are chance where classes mix

// {top, owner, peaks}: for each cell the highest density and its class; for each class its peaks, the highest first, and whether these lie in its own region.
function densities(data, moment) {
  if (moment.densities) return moment.densities;
  const top = new Float32Array(CELLS ** 2);
  const owner = new Int32Array(CELLS ** 2).fill(NONE);
  const perClass = data.classes.map(() => []);
  moment.shown.forEach((id, at) => perClass[data.labels[id]].push(at));
  const peaks = perClass.map((places, label) => {
    if (!places.length) return [];
    const field = blurred(moment, places);
    for (let i = 0; i < field.length; i += 1) if (field[i] > top[i]) { top[i] = field[i]; owner[i] = label; }
    return findPeaks(field);
  });
  if (moment.evaluated && moment.run.crowd) addCrowd(top, owner, moment.run.crowd, data.classes.length, moment.shown.length);
  peaks.forEach((found, label) => found.forEach((peak) => { peak.owned = owner[peak.cell] === label; }));
  moment.densities = { top, owner, peaks };
  return moment.densities;
}

// The training examples that are not shown: where they are, the class that most of them have.
function addCrowd(top, owner, { labels, cells: { starts } }, classes, shown) {
  const counts = new Float32Array(CELLS ** 2).map((_, i) => starts[i + 1] - starts[i]);
  let field = counts;
  for (let pass = 0; pass < 2; pass += 1) field = box(box(field, 1, CELLS, 1), CELLS, 1, 1);
  const votes = new Uint32Array(classes);
  for (let i = 0; i < field.length; i += 1) {
    top[i] += (field[i] * shown) / labels.length; // as if all were as many as the shown ones
    if (!counts[i] || (counts[i] < MAJORITY && owner[i] !== NONE)) continue;
    const here = labels.subarray(starts[i], starts[i + 1]);
    let most = here[0];
    for (const label of here) { votes[label] += 1; if (votes[label] > votes[most]) most = label; }
    for (const label of here) votes[label] = 0;
    owner[i] = most;
  }
}

function findPeaks(field) {
  const high = [];
  for (let row = 1; row < CELLS - 1; row += 1) {
    for (let column = 1; column < CELLS - 1; column += 1) {
      const i = row * CELLS + column;
      const v = field[i];
      if (v > 1e-3 && v >= field[i - 1] && v > field[i + 1] && v >= field[i - CELLS] && v > field[i + CELLS]) high.push([v, column, row]);
    }
  }
  high.sort((a, b) => b[0] - a[0]);
  const kept = [];
  for (const [v, column, row] of high) {
    if (kept.length >= PEAKS || v < 0.12 * high[0][0]) break;
    if (kept.every((peak) => Math.hypot(peak.column - column, peak.row - row) > APART)) kept.push({ column, row, v });
  }
  return kept.map(({ column, row, v }) => ({ x: ((column + 0.5) / CELLS) * SQUARE, y: ((row + 0.5) / CELLS) * SQUARE, v, cell: row * CELLS + column }));
}

function densityImage(data, moment, theme, way) {
  const { top, owner } = densities(data, moment);
  return shade(top, owner, classColours(data, theme).map(rgb), theme, BY_CLASS.includes(way));
}

// Points of one class spread over the cells, then blurred three times by a box, which is nearly a Gaussian.
function blurred(moment, places) {
  let field = new Float32Array(CELLS ** 2);
  for (const at of places) {
    const column = Math.min(CELLS - 1, (moment.positions[2 * at] / SQUARE * CELLS) | 0);
    const row = Math.min(CELLS - 1, (moment.positions[2 * at + 1] / SQUARE * CELLS) | 0);
    field[row * CELLS + column] += 1;
  }
  for (let pass = 0; pass < 3; pass += 1) field = box(box(field, 1, CELLS), CELLS, 1);
  return field;
}

function box(field, step, stride, radius = 2) {
  const out = new Float32Array(field.length);
  for (let line = 0; line < CELLS; line += 1) {
    let sum = 0;
    for (let i = -radius; i < CELLS; i += 1) {
      if (i + radius < CELLS) sum += field[line * stride + (i + radius) * step];
      if (i - radius - 1 >= 0) sum -= field[line * stride + (i - radius - 1) * step];
      if (i >= 0) out[line * stride + i * step] = sum / (2 * radius + 1);
    }
  }
  return out;
}

function shade(top, owner, colours, theme, coloured) {
  const image = new ImageData(CELLS, CELLS);
  const positive = top.filter((v) => v > 1e-4).sort();
  const full = positive[Math.floor(0.8 * positive.length)] || 1;
  const neutral = rgb(GREY[theme]);
  for (let i = 0; i < top.length; i += 1) {
    if (owner[i] === NONE) continue;
    const [r, g, b] = coloured ? colours[owner[i]] : neutral;
    const pixel = 4 * ((CELLS - 1 - Math.floor(i / CELLS)) * CELLS + (i % CELLS)); // y goes up
    image.data.set([r, g, b, 255 * 0.3 * Math.min(1, top[i] / full) ** 0.7], pixel);
  }
  const canvas = el("canvas", { width: CELLS, height: CELLS });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
