// What lies above the points: pictures when few are in view, the chosen examples, and the cluster centres.

function drawOverlay(context, frame, view, chosen) {
  const ring = getComputedStyle(document.documentElement).getPropertyValue("--ring");
  drawPictures(context, frame, view);
  if (chosen) drawChosen(context, frame, view, chosen, ring);
  if (state.centres) drawCentres(context, frame, view.moment, ring);
}

const inView = (frame, x, y, margin = 0) =>
  x > -margin && y > -margin && x < frame.width + margin && y < frame.height + margin;

function drawPictures(context, frame, { data, moment }) {
  const seen = [];
  for (let at = 0; at < moment.shown.length && seen.length <= LIMIT; at += 1) {
    if (inView(frame, frame.x(moment.positions[2 * at]), frame.y(moment.positions[2 * at + 1]))) seen.push(at);
  }
  if (seen.length > LIMIT) return;
  const classes = palette(data.classes.length, state.theme);
  const height = seen.length > 70 ? 26 : 38;
  const width = height * lookRatio(data.pictures);
  for (const at of seen) {
    const left = frame.x(moment.positions[2 * at]) - width / 2;
    const top = frame.y(moment.positions[2 * at + 1]) - height / 2;
    context.fillStyle = classes[data.labels[moment.shown[at]]];
    context.fillRect(left - 2, top - 2, width + 4, height + 4);
    drawLook(context, data, moment.shown[at], left, top, width, height);
  }
}

function drawChosen(context, frame, { data, moment }, { strong, mark }, ring) {
  const classes = palette(data.classes.length, state.theme); // told apart even where the map shows something else
  const radius = Math.min(6, Math.max(3, 300 / Math.sqrt(data.count)));
  strong.forEach((id) => {
    const at = moment.place[id];
    if (at === NONE) return;
    circle(context, frame.x(moment.positions[2 * at]), frame.y(moment.positions[2 * at + 1]), radius);
    context.fillStyle = classes[data.labels[id]];
    context.fill();
    context.lineWidth = 0.8;
    context.strokeStyle = ring;
    context.stroke();
  });
  if (mark === NONE || moment.place[mark] === NONE) return;
  const at = moment.place[mark];
  circle(context, frame.x(moment.positions[2 * at]), frame.y(moment.positions[2 * at + 1]), radius + 6);
  context.lineWidth = 2.5;
  context.strokeStyle = ring;
  context.stroke();
}

// Larger with more members, smaller where there are many clusters or little room.
function centreRadius(frame, moment, cluster) {
  moment.largest ??= moment.centres.sizes.reduce((a, b) => Math.max(a, b), 1);
  const crowd = Math.min(1, Math.max(0.55, Math.sqrt(100 / moment.centres.sizes.length)));
  const room = Math.min(1, Math.max(0.7, Math.min(frame.width, frame.height) / 650));
  return crowd * room * (2.4 + 4.3 * Math.sqrt(moment.centres.sizes[cluster] / moment.largest));
}

// The clusters that a selection is about, or null for all.
function clustersOf(moment, chosen) {
  if (chosen?.kind === "class") return moment.ofClass[chosen.label];
  if (chosen?.kind === "cluster") return chosen.moment === moment ? [chosen.cluster] : [];
  if (chosen?.kind === "example") return [moment.clusters[moment.place[chosen.id]]];
  return chosen ? [] : null;
}

function drawCentres(context, frame, moment, ring) {
  const chosen = state.preview ?? state.selection;
  const mine = clustersOf(moment, chosen);
  moment.centres.sizes.forEach((_, cluster) => {
    const x = frame.x(moment.centres.positions[2 * cluster]);
    const y = frame.y(moment.centres.positions[2 * cluster + 1]);
    if (!inView(frame, x, y, 10)) return;
    const radius = centreRadius(frame, moment, cluster);
    context.globalAlpha = !mine || mine.includes(cluster) ? 1 : 0.3;
    circle(context, x, y, radius);
    context.fillStyle = "#fff";
    context.fill();
    context.lineWidth = 1.4;
    context.strokeStyle = "#11161d";
    context.stroke();
    if (chosen?.kind !== "cluster" || !mine.includes(cluster)) return;
    circle(context, x, y, radius + 5);
    context.lineWidth = 2.5;
    context.strokeStyle = ring;
    context.stroke();
  });
  context.globalAlpha = 1;
}

function circle(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}
