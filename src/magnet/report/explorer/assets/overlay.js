// What lies above the points: pictures when few are in view, the chosen example, cluster centres, names.

const inView = (frame, x, y, margin = 0) =>
  x > -margin && y > -margin && x < frame.width + margin && y < frame.height + margin;

// Whether two boxes come nearer to each other than `room`.
const overlap = (a, b, room = 0) => a.left < b.left + b.width + room && b.left < a.left + a.width + room
  && a.top < b.top + b.height + room && b.top < a.top + a.height + room;

// Draws all of it, and tells the view where names and pictures are.
function drawOverlay(context, frame, view) {
  const chosen = state.preview ?? state.selection;
  view.pictures = drawPictures(context, frame, view);
  if (chosen?.kind === "example") drawMark(context, frame, view, chosen.id);
  if (state.centres) drawCentres(context, frame, view.moment, chosen);
  view.names = state.names ? drawNames(context, frame, view, chosen) : [];
}

// How many examples in view are drawn as pictures: a table only close up, where its bars can be read.
function pictureLimit({ pictures }, frame) {
  if (pictures.kind === "features") return frame.zoom < 2.5 ? 0 : 60;
  return frame.zoom < 1.6 ? 120 : 400;
}

// What is chosen comes first; an example that another picture would cover stays a point.
function drawPictures(context, frame, view) {
  const { data, moment, dimmed } = view;
  const limit = pictureLimit(data, frame);
  const seen = limit ? cellsOf(moment).inside(frame.bounds, limit) : [];
  if (!seen.length || seen.length > limit) return [];
  const { colour, strong } = view.points.values; // those of the points
  const height = seen.length > 150 ? 36 : seen.length > 50 ? 48 : seen.length > 18 ? 64 : 92;
  const width = height * lookRatio(data.pictures);
  const room = data.pictures.kind === "features" ? 6 : -0.3 * height; // a photograph is known by its middle, bars are not
  const drawn = [];
  for (const at of seen.sort((a, b) => strong[b] - strong[a])) {
    const left = frame.x(moment.positions[2 * at]) - width / 2;
    const top = frame.y(moment.positions[2 * at + 1]) - height / 2;
    const box = { left, top, width, height, id: moment.shown[at] };
    if (drawn.some((other) => overlap(box, other, room))) continue;
    drawn.push(box);
    context.globalAlpha = dimmed && !strong[at] ? 0.3 : 1;
    context.fillStyle = `rgb(${colour[3 * at]} ${colour[3 * at + 1]} ${colour[3 * at + 2]})`;
    context.fillRect(left - 2, top - 2, width + 4, height + 4);
    drawLook(context, data, box.id, left, top, width, height, () => view.draw());
  }
  context.globalAlpha = 1;
  return drawn;
}

function drawMark(context, frame, { moment }, id) {
  const at = moment.place[id];
  if (at === NONE) return;
  circle(context, frame.x(moment.positions[2 * at]), frame.y(moment.positions[2 * at + 1]), 12);
  context.lineWidth = 2.5;
  context.strokeStyle = INK[state.theme];
  context.stroke();
}

// Larger with more members, smaller where there are many clusters or little room.
function centreRadius(frame, moment, cluster) {
  moment.largest ??= moment.centres.sizes.reduce((a, b) => Math.max(a, b), 1);
  const crowd = Math.min(1, Math.max(0.5, Math.sqrt(80 / moment.centres.sizes.length)));
  const room = Math.min(1, Math.max(0.7, Math.min(frame.width, frame.height) / 650));
  return crowd * room * (2.4 + 4.3 * Math.sqrt(moment.centres.sizes[cluster] / moment.largest));
}

// The clusters that a selection is about, or null for all.
function clustersOf(moment, chosen) {
  if (chosen?.kind === "class") return new Set(moment.ofClass[chosen.label]);
  if (chosen?.kind === "cluster") return new Set(chosen.moment === moment ? [chosen.cluster] : []);
  if (chosen?.kind === "example") return new Set([moment.clusters[moment.place[chosen.id]]]);
  return chosen ? new Set() : null;
}

function drawCentres(context, frame, moment, chosen) {
  const mine = clustersOf(moment, chosen);
  moment.centres.sizes.forEach((_, cluster) => {
    const x = frame.x(moment.centres.positions[2 * cluster]);
    const y = frame.y(moment.centres.positions[2 * cluster + 1]);
    if (!inView(frame, x, y, 10)) return;
    const radius = centreRadius(frame, moment, cluster);
    context.globalAlpha = !mine || mine.has(cluster) ? 1 : 0.3;
    circle(context, x, y, radius);
    context.fillStyle = "#fff";
    context.fill();
    context.lineWidth = 1.4;
    context.strokeStyle = INK.light;
    context.stroke();
    if (chosen?.kind !== "cluster" || !mine.has(cluster)) return;
    circle(context, x, y, radius + 5);
    context.lineWidth = 2.5;
    context.strokeStyle = INK[state.theme];
    context.stroke();
  });
  context.globalAlpha = 1;
}

function circle(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}
