// Names of classes on the map: each on the densest part of its class that is in view, none over another.

const NAME_FONT = "600 13px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif";
const NAME_HEIGHT = 18;
const NAME_WIDTH = 170;
const CLOSE_UP = 1500; // examples in view at which a class without a peak in view is named at its own examples
const STEPS = [0, -1, 1, -2, 2]; // heights by which a name makes room for another

// Draws the names and returns where they are: [{label, left, top, width, height}].
function drawNames(context, frame, view, chosen) {
  const { data, moment } = view;
  const { peaks } = densities(data, moment);
  const spoken = classesOf(data, view, chosen);
  const order = [...data.classes.keys()].sort((a, b) =>
    Number(spoken?.has(b) ?? 0) - Number(spoken?.has(a) ?? 0) || data.byClass[b].length - data.byClass[a].length);
  const close = anchorsCloseUp(data, frame, moment);
  const placed = [];
  const taken = [{ left: frame.width - 56, top: frame.height - 138, width: 56, height: 138 }]; // the buttons
  context.font = NAME_FONT;
  for (const label of order) {
    const peak = peaks[label].find(({ x, y }) => inView(frame, frame.x(x), frame.y(y), -6));
    const anchor = peak ? [frame.x(peak.x), frame.y(peak.y)] : close.get(label);
    if (!anchor) continue;
    const text = shorten(context, data, label);
    const found = findRoom(frame, anchor, text.width, [...taken, ...placed], spoken?.has(label));
    if (found) placed.push({ label, text: text.text, height: NAME_HEIGHT, ...found });
  }
  const theme = state.theme;
  context.textBaseline = "middle";
  context.lineJoin = "round";
  for (const { label, text, left, top } of [...placed].reverse()) {
    context.globalAlpha = !spoken || spoken.has(label) ? 1 : 0.35;
    context.lineWidth = 4;
    context.strokeStyle = PAPER[theme];
    context.strokeText(text, left, top + NAME_HEIGHT / 2);
    context.fillStyle = INK[theme];
    context.fillText(text, left, top + NAME_HEIGHT / 2);
  }
  context.globalAlpha = 1;
  return placed;
}

// The classes that a selection is about, or null for all.
function classesOf(data, view, chosen) {
  if (!chosen) return null;
  if (chosen.kind === "class") return new Set([chosen.label]);
  if (chosen.kind === "cluster") return new Set([chosen.moment.centres.labels[chosen.cluster]]);
  if (chosen.kind === "found") return new Set(chosen.ids.slice(0, 2000).map((id) => data.labels[id]));
  const moment = momentFor(view.run, chosen.id);
  return new Set([data.labels[chosen.id], predictionOf(moment, chosen.id)]);
}

// Very close up a class may have examples in view but no peak: then its name stands at the first of them.
function anchorsCloseUp(data, frame, moment) {
  const anchors = new Map();
  if (frame.zoom < 1.5) return anchors;
  const seen = cellsOf(moment).inside(frame.bounds, CLOSE_UP);
  if (seen.length > CLOSE_UP) return anchors;
  for (const at of seen) {
    const label = data.labels[moment.shown[at]];
    const [x, y] = [frame.x(moment.positions[2 * at]), frame.y(moment.positions[2 * at + 1])];
    if (!anchors.has(label) && inView(frame, x, y, -20)) anchors.set(label, [x, y - 26]);
  }
  return anchors;
}

function shorten(context, data, label) {
  data.shortNames ??= [];
  if (!data.shortNames[label]) {
    let text = data.classes[label].replaceAll(/\s+/g, " ");
    while (text.length > 4 && context.measureText(text).width > NAME_WIDTH) text = `${text.slice(0, -2).trimEnd()}…`;
    data.shortNames[label] = { text, width: context.measureText(text).width };
  }
  return data.shortNames[label];
}

// The nearest free place to an anchor; where there is none, none, unless the name must be there.
function findRoom(frame, [x, y], width, taken, must) {
  const left = Math.min(Math.max(x - width / 2, 4), frame.width - width - 4);
  for (const step of STEPS) {
    const top = Math.min(Math.max(y - NAME_HEIGHT / 2 + step * NAME_HEIGHT, 2), frame.height - NAME_HEIGHT - 2);
    const free = taken.every((other) => left > other.left + other.width + 6 || other.left > left + width + 6
      || top >= other.top + other.height || other.top >= top + NAME_HEIGHT);
    if (free) return { left, top, width };
  }
  return must ? { left, top: Math.min(Math.max(y - NAME_HEIGHT / 2, 2), frame.height - NAME_HEIGHT - 2), width } : null;
}
