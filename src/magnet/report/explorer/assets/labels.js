// Names of classes on the map: each on the densest part of its class that is in view, none over another.

const NAME_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif";
const NAME_HEIGHT = 18;
const NAME_WIDTH = 210;
const SMALL_STAGE = 500; // pixels of width or height, below which names are smaller
const CLOSE_UP = 1500; // examples in view at which a class without a peak in view is named at its own examples
const FEW_IN_VIEW = 60; // at which even a single one is named; of more, it takes a share of them
const SHARE_IN_VIEW = 0.02;
const ANCHORS = 12; // examples at which there may be room for the name of their class
// Where a name may stand: halves of its width and heights from its anchor, the best place first.
const PLACES = [[0, 0], [0, -1], [0, 1], [-1, 0], [1, 0], [0, -2], [0, 2], [-1, -1], [1, -1], [-1, 1], [1, 1]];
const SHARE_COVERED = 0.3; // of the map in view, by names at most, so that it is seen between them
const MANY_CENTRES = 600; // in view, above which names don't keep clear of them

// Draws the names and returns where they are: [{label, left, top, width, height}].
function drawNames(context, frame, view, chosen) {
  const { data, moment } = view;
  const { peaks } = densities(data, moment);
  const spoken = classesOf(data, view, chosen);
  const order = [...data.classes.keys()].sort((a, b) =>
    Number(spoken?.has(b) ?? 0) - Number(spoken?.has(a) ?? 0) || (peaks[b][0]?.v ?? 0) - (peaks[a][0]?.v ?? 0)); // the clearest first
  const close = anchorsCloseUp(data, frame, moment);
  const placed = [];
  const { offsetLeft: left, offsetTop: top, offsetWidth: width, offsetHeight: height } = view.buttons;
  const taken = [{ left, top, width, height }];
  const dots = dotsToKeepClear(frame, moment, chosen);
  context.font = `600 ${Math.min(frame.width, frame.height) < SMALL_STAGE ? 11 : 13}px ${NAME_FONT}`;
  const [wide, tall] = view.extent.size.map((side) => side * frame.scale);
  let room = SHARE_COVERED * Math.min(frame.width, wide) * Math.min(frame.height, tall);
  for (const label of order) {
    const high = peaks[label].map(({ x, y, owned }) => [frame.x(x), frame.y(y), owned]).filter(([x, y]) => inView(frame, x, y, -6));
    const clear = high.filter(([, , owned], i) => owned || i === 0); // at a lower peak in the region of another it would be misread
    const anchors = [...clear, ...(close.get(label) ?? [])];
    if (!anchors.length) continue;
    const text = shorten(context, data, label);
    if (text.width * NAME_HEIGHT > room && !spoken?.has(label)) continue;
    let found = null;
    for (const anchor of anchors) found ??= findRoom(frame, anchor, text.width, taken, dots, label);
    if (!found && spoken?.has(label)) found = placeAt(frame, anchors[0], text.width);
    if (!found) continue;
    taken.push(found);
    room -= text.width * NAME_HEIGHT;
    placed.push({ label, text: text.text, ...found });
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
  if (chosen.kind === "found") return new Set(chosen.classes ?? chosen.ids.slice(0, 2000).map((id) => data.labels[id]));
  const moment = momentFor(view.run, chosen.id);
  return new Set([data.labels[chosen.id], predictionOf(moment, chosen.id)]);
}

// Close up a class may have examples in view but no peak: then its name stands at one of them, unless it has so few in a
// crowd of others that the name would tell of the wrong region.
function anchorsCloseUp(data, frame, moment) {
  const anchors = new Map();
  if (frame.zoom < 1.5) return anchors;
  const seen = cellsOf(moment).inside(frame.bounds, CLOSE_UP);
  if (seen.length > CLOSE_UP) return anchors;
  const counts = new Uint32Array(data.classes.length);
  for (const at of seen) counts[data.labels[moment.shown[at]]] += 1;
  const least = seen.length > FEW_IN_VIEW ? Math.max(2, SHARE_IN_VIEW * seen.length) : 1;
  for (const at of seen) {
    const label = data.labels[moment.shown[at]];
    if (counts[label] < least) continue;
    const [x, y] = [frame.x(moment.positions[2 * at]), frame.y(moment.positions[2 * at + 1])];
    if (!anchors.has(label)) anchors.set(label, []);
    if (anchors.get(label).length < ANCHORS && inView(frame, x, y, -20)) anchors.get(label).push([x, y - 26]);
  }
  return anchors;
}

function shorten(context, data, label) {
  const known = ((data.shortNames ??= {})[context.font] ??= []);
  if (!known[label]) {
    let text = data.classes[label].replaceAll(/\s+/g, " ");
    while (text.length > 4 && context.measureText(text).width > NAME_WIDTH) text = `${text.slice(0, -2).trimEnd()}…`;
    known[label] = { text, width: context.measureText(text).width };
  }
  return known[label];
}

// The chosen example and the centres in view, as boxes.
function dotsToKeepClear(frame, moment, chosen) {
  const { positions, sizes, labels } = moment.centres;
  const box = (x, y, radius, label) => ({ left: x - radius, top: y - radius, width: 2 * radius, height: 2 * radius, label });
  const centres = state.centres ? Array.from(sizes, (_, i) => box(frame.x(positions[2 * i]), frame.y(positions[2 * i + 1]), centreRadius(frame, moment, i), labels[i]))
    .filter(({ left, top }) => inView(frame, left, top, 20)) : [];
  const at = chosen?.kind === "example" ? moment.place[chosen.id] : NONE;
  const mark = at === NONE ? [] : [box(frame.x(moment.positions[2 * at]), frame.y(moment.positions[2 * at + 1]), 14)];
  return [...mark, ...(centres.length > MANY_CENTRES ? [] : centres)];
}

// A box for a name, some halves of its width and heights from its anchor, and within the stage.
function placeAt(frame, [x, y], width, [across, up] = [0, 0]) {
  const within = (value, most) => Math.min(Math.max(value, 3), most - 3);
  return {
    left: within(x - width / 2 + across * (width / 2 + 10), frame.width - width),
    top: within(y - NAME_HEIGHT / 2 + up * NAME_HEIGHT, frame.height - NAME_HEIGHT),
    width, height: NAME_HEIGHT,
  };
}

// The best place at an anchor that no other name has: clear of dots, or over dots of its own class, or further off, or over any.
function findRoom(frame, anchor, width, taken, dots, label) {
  const foreign = dots.filter((dot) => dot.label !== label);
  const near = PLACES.map((place) => placeAt(frame, anchor, width, place)).filter((place) => Math.abs(place.left + width / 2 - anchor[0]) < width / 2 + 12
    && !taken.some((other) => overlap({ ...place, left: place.left - 6, width: width + 12 }, other)));
  const clear = (places, of) => places.find((place) => !of.some((dot) => overlap(place, dot)));
  return clear(near.slice(0, 5), dots) ?? clear(near.slice(0, 3), foreign) ?? clear(near, dots)
    ?? near.find((place) => overlap(place, { left: anchor[0], top: anchor[1], width: 0, height: 0 }, 2)) ?? null; // at the anchor itself
}
