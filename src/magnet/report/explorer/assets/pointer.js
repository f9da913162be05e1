// The mouse, fingers and keys on a map.

const REACH = 9; // pixels, of a mouse
const TOUCH = 22; // of a finger
const DRAG = 5;

// What lies at a point of the stage: a name, a cluster centre, an example, or nothing.
function hit(view, x, y, reach = REACH) {
  const { moment } = view;
  const here = { left: x, top: y, width: 0, height: 0 };
  const name = view.names.find((box) => overlap(here, box));
  if (name) return { kind: "class", label: name.label };
  const frame = view.frame();
  const { positions } = moment.centres;
  let [best, nearest] = [NONE, Infinity];
  const consider = (i, px, py, limit) => {
    const distance = Math.hypot(frame.x(px) - x, frame.y(py) - y);
    if (distance < limit && distance < nearest) [best, nearest] = [i, distance];
  };
  if (state.centres) {
    for (let i = 0; i < positions.length / 2; i += 1) consider(i, positions[2 * i], positions[2 * i + 1], centreRadius(frame, moment, i) + 2);
    if (best !== NONE) return { kind: "cluster", moment, cluster: best };
  }
  const picture = view.pictures.findLast((box) => overlap(here, box)); // the last is on top
  if (picture) return { kind: "example", id: picture.id, run: view.run.number };
  const [mx, my] = [frame.bounds[0] + x / frame.scale, frame.bounds[3] - y / frame.scale];
  const far = reach / frame.scale;
  for (const at of cellsOf(moment).inside([mx - far, my - far, mx + far, my + far])) {
    consider(at, moment.positions[2 * at], moment.positions[2 * at + 1], reach);
  }
  return best === NONE ? null : { kind: "example", id: moment.shown[best], run: view.run.number };
}

MapView.prototype.listen = function listen() {
  const { stage } = this;
  const place = (event) => {
    const corner = stage.getBoundingClientRect();
    return [event.clientX - corner.left, event.clientY - corner.top];
  };
  const fingers = new Map(); // pointers that are down, and where they are
  let start = null;
  stage.addEventListener("pointerdown", (event) => {
    if (event.target.closest(".zooms")) return;
    fingers.set(event.pointerId, place(event));
    start = fingers.size === 1 ? place(event) : null; // two fingers are no click
    stage.setPointerCapture(event.pointerId);
    hideTooltip();
  });
  stage.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = fingers.get(event.pointerId);
    if (!before) { this.pointAt(now, event); return; }
    if (start && Math.hypot(now[0] - start[0], now[1] - start[1]) < DRAG) return;
    start = null;
    const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (others.length === 1) this.pinch(others[0], before, now);
    else if (!others.length) this.pan(now[0] - before[0], now[1] - before[1]);
    fingers.set(event.pointerId, now);
  });
  const end = (event) => {
    const clicked = event.type === "pointerup" && start && fingers.has(event.pointerId);
    fingers.delete(event.pointerId);
    if (!clicked) return;
    start = null;
    stage.focus({ preventScroll: true });
    const found = hit(this, ...place(event), event.pointerType === "mouse" ? REACH : TOUCH);
    select(found, found || state.tab === "Selection" ? "Selection" : state.tab);
    if (found) openSheet();
  };
  stage.addEventListener("pointerup", end);
  stage.addEventListener("pointercancel", end);
  stage.addEventListener("pointerleave", () => { hideTooltip(); if (state.preview) preview(null); });
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), place(event));
  }, { passive: false });
  stage.addEventListener("dblclick", (event) => { if (!event.target.closest(".zooms")) this.reset(); });
  stage.addEventListener("keydown", (event) => { if (event.target === stage) this.key(event); });
};

MapView.prototype.pointAt = function pointAt(at, event) {
  if (event.pointerType !== "mouse" || event.target.closest(".zooms")) return;
  const { stage, data } = this;
  const found = hit(this, ...at);
  stage.style.cursor = found ? "pointer" : "grab";
  const over = found?.kind === "class" ? found : null;
  if (state.preview?.label !== over?.label) preview(over);
  if (found?.kind === "cluster") showClusterTooltip(data, found.moment, found.cluster, event);
  else if (found?.kind === "example") showTooltip(data, found.id, event, this.run);
  else hideTooltip();
};

// One finger stays, the other moves: zoom around their middle by the ratio of distances.
MapView.prototype.pinch = function pinch(still, before, now) {
  const apart = ([x, y]) => Math.hypot(x - still[0], y - still[1]);
  this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  this.zoom(apart(now) / Math.max(apart(before), 1), [(now[0] + still[0]) / 2, (now[1] + still[1]) / 2]);
};

MapView.prototype.key = function key(event) {
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const act = {
    "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), 0: () => this.reset(),
    Enter: () => this.openCluster(),
  }[event.key];
  const arrow = arrows[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || (!act && !arrow)) return;
  event.preventDefault();
  if (act) act();
  else if (event.shiftKey) this.zoom(1, null, arrow.map((v) => 0.2 * v));
  else this.step(arrow);
};

// From the chosen example to the nearest one in a direction.
MapView.prototype.step = function step([dx, dy]) {
  const { moment } = this;
  const chosen = state.selection?.kind === "example" ? moment.place[state.selection.id] : NONE;
  const from = chosen === NONE ? this.frame().middle : moment.positions.subarray(2 * chosen, 2 * chosen + 2);
  let [best, least] = [NONE, Infinity];
  for (let at = 0; at < moment.shown.length; at += 1) {
    const [x, y] = [moment.positions[2 * at] - from[0], moment.positions[2 * at + 1] - from[1]];
    const along = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    const cost = along + 2 * aside; // straight ahead is nearer than aside
    if (at !== chosen && along > 0 && aside <= along && cost < least) [best, least] = [at, cost];
  }
  if (best !== NONE) select({ kind: "example", id: moment.shown[best], run: this.run.number });
};

MapView.prototype.openCluster = function openCluster() {
  if (state.selection?.kind !== "example") return;
  const cluster = this.moment.clusters[this.moment.place[state.selection.id]];
  if (cluster !== undefined && cluster !== NONE) select({ kind: "cluster", moment: this.moment, cluster });
};
