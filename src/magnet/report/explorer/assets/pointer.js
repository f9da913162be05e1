// The mouse and the keys on a map.

const REACH = 9; // pixels
const DRAG = 4;

// What lies at a point of the stage: a cluster centre, an example, or nothing.
function hit(view, x, y) {
  const { moment } = view;
  const frame = view.frame();
  const closest = (positions, reach) => {
    let [best, nearest] = [NONE, Infinity];
    for (let i = 0; i < positions.length / 2; i += 1) {
      const distance = Math.hypot(frame.x(positions[2 * i]) - x, frame.y(positions[2 * i + 1]) - y);
      if (distance < reach(i) && distance < nearest) [best, nearest] = [i, distance];
    }
    return best;
  };
  const cluster = state.centres ? closest(moment.centres.positions, (i) => centreRadius(frame, moment, i) + 2) : NONE;
  if (cluster !== NONE) return { kind: "cluster", moment, cluster };
  const at = closest(moment.positions, () => REACH);
  return at === NONE ? null : { kind: "example", id: moment.shown[at], run: view.run.number };
}

MapView.prototype.listen = function listen() {
  const { stage, data } = this;
  const place = (event) => {
    const corner = stage.getBoundingClientRect();
    return [event.clientX - corner.left, event.clientY - corner.top];
  };
  let down = null;
  stage.addEventListener("pointermove", (event) => {
    if (event.buttons) return hideTooltip();
    const found = hit(this, ...place(event));
    stage.style.cursor = found ? "pointer" : "";
    this.plot.querySelector(".nsewdrag").style.cursor = found ? "pointer" : "";
    if (!found) return hideTooltip();
    if (found.kind === "cluster") return showClusterTooltip(data, found.moment, found.cluster, event);
    return showTooltip(data, found.id, event, this.run);
  });
  stage.addEventListener("pointerleave", hideTooltip);
  stage.addEventListener("pointerdown", (event) => { down = [event.clientX, event.clientY]; }, true);
  // Plotly lays a cover over the page while a button is down, so the end of a click is heard at the window.
  globalThis.addEventListener("pointerup", (event) => {
    const still = down && Math.hypot(event.clientX - down[0], event.clientY - down[1]) < DRAG;
    down = null;
    if (still) {
      stage.focus({ preventScroll: true });
      select(hit(this, ...place(event)));
    }
  }, true);
  stage.addEventListener("keydown", (event) => this.key(event));
};

MapView.prototype.key = function key(event) {
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const act = {
    "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7), 0: () => this.reset(),
    Enter: () => this.openCluster(),
  }[event.key];
  const arrow = arrows[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || (!act && !arrow)) return;
  event.preventDefault();
  if (act) act();
  else if (event.shiftKey) this.zoom(1, 0.2 * arrow[0], 0.2 * arrow[1]);
  else this.step(arrow);
};

// From the chosen example to the nearest one in a direction.
MapView.prototype.step = function step([dx, dy]) {
  const { moment } = this;
  const chosen = state.selection?.kind === "example" ? moment.place[state.selection.id] : NONE;
  const from = chosen === NONE ? [SQUARE / 2, SQUARE / 2] : moment.positions.subarray(2 * chosen, 2 * chosen + 2);
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
