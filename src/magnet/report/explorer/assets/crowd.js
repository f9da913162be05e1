// The training examples that are not shown: a density, and close up small dots.

const MOST_DOTS = 150000; // in view at a time

// Sorted by cells, so that what is in view is a stretch for each row of them.
function sortCrowd({ positions, labels }) {
  const cells = new Cells(positions);
  const place = new Uint16Array(positions.length);
  const sorted = new labels.constructor(labels.length);
  cells.order.forEach((from, to) => {
    place[2 * to] = positions[2 * from];
    place[2 * to + 1] = positions[2 * from + 1];
    sorted[to] = labels[from];
  });
  return { place, labels: sorted, cells };
}

// The dots of a crowd as `Points` wants them, in the colours of their classes where colour tells of these.
function crowdDots(data, { place, labels }, way, theme) {
  const classes = classColours(data, theme).map(rgb);
  const grey = rgb(GREY[theme]);
  const colour = new Uint8Array(3 * labels.length);
  labels.forEach((label, at) => colour.set(BY_CLASS.includes(way) ? classes[label] : grey, 3 * at));
  return { place, colour, factor: new Float32Array(labels.length).fill(1), strong: new Uint8Array(labels.length) };
}

// The stretches of a crowd that are in view; none where they are too many to be seen one by one.
function crowdInView({ cells }, bounds) {
  const found = cells.stretches(bounds);
  return found.reduce((sum, [first, end]) => sum + end - first, 0) > MOST_DOTS ? [] : found;
}
