// One map: regions on a canvas below, points by WebGL, and above them pictures, centres and names.

class MapView {
  constructor(data, run, holder) {
    this.data = data;
    this.run = run;
    this.moment = run.end;
    this.under = el("canvas");
    this.crowd = run.crowd && new Points(el("canvas", { class: "crowd" }));
    this.points = new Points(el("canvas"));
    this.over = el("canvas");
    this.buttons = this.zoomButtons();
    this.stage = el("div", {
      class: "stage", tabIndex: 0, role: "application",
      "aria-label": `Map of ${run.name}. Arrow keys go from example to example, plus and minus zoom, zero shows all.`,
    }, this.under, this.crowd ? this.crowd.canvas : "", this.points.canvas, this.over, this.buttons);
    this.caption = el("span");
    this.box = el("div", { class: "map" },
      el("div", { class: "caption" }, el("h2", { class: "name", textContent: run.name }), this.caption), this.stage);
    holder.append(this.box);
    this.extent = this.measure();
    this.names = []; // where they were drawn
    this.pictures = [];
    this.camera = null;
  }

  start() {
    this.describe();
    this.setPoints();
    new ResizeObserver(() => this.fit()).observe(this.stage);
    this.listen();
    this.fit();
  }

  zoomButtons() {
    const button = (text, name, act) => el("button", { type: "button", textContent: text, "aria-label": name, onclick: act });
    return el("div", { class: "zooms" }, button("+", "Zoom in", () => this.zoom(1.5)),
      button("−", "Zoom out", () => this.zoom(1 / 1.5)), button("⤢", "Show all", () => this.reset()));
  }

  // Where examples lie, at any moment.
  measure() {
    const [low, high] = [[SQUARE, SQUARE], [0, 0]];
    for (const { positions } of this.run.moments) {
      positions.forEach((value, i) => { low[i % 2] = Math.min(low[i % 2], value); high[i % 2] = Math.max(high[i % 2], value); });
    }
    return { middle: [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2], size: [0, 1].map((i) => Math.max(high[i] - low[i], 1)) };
  }

  // All of the map in view: its middle, and how many pixels a unit takes.
  whole() {
    const { middle, size } = this.extent;
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    return { middle: middle.slice(), scale: scaleIn(width, height, size) };
  }

  // After a change of size: what was in the middle stays there, as much zoomed as before.
  fit() {
    if (!this.stage.clientWidth || !this.stage.clientHeight) return;
    const now = this.whole();
    this.camera = this.camera ? { middle: this.camera.middle, scale: (now.scale * this.camera.scale) / this.fitted } : now;
    this.fitted = now.scale;
    this.draw();
  }

  // Between the square of the map and the pixels of the stage.
  frame() {
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const { middle, scale } = this.camera ?? this.whole();
    const [mx, my] = middle;
    return {
      width, height, scale, middle,
      zoom: scale / (this.fitted ?? scale), // 1: all of the map is in view
      x: (value) => (value - mx) * scale + width / 2,
      y: (value) => height / 2 - (value - my) * scale,
      bounds: [mx - width / 2 / scale, my - height / 2 / scale, mx + width / 2 / scale, my + height / 2 / scale],
    };
  }

  // Zoom by a factor around a point of the stage (its middle), then move by shares of the stage.
  zoom(factor, at = null, shift = [0, 0]) {
    const { camera } = this;
    const [dx, dy] = at ? [at[0] - this.stage.clientWidth / 2, this.stage.clientHeight / 2 - at[1]] : [0, 0];
    const scale = Math.min(Math.max(camera.scale * factor, this.fitted * 0.6), this.fitted * 400);
    camera.middle[0] += dx / camera.scale - dx / scale + (shift[0] * this.stage.clientWidth) / scale;
    camera.middle[1] += dy / camera.scale - dy / scale + (shift[1] * this.stage.clientHeight) / scale;
    camera.scale = scale;
    this.draw();
  }

  pan(dx, dy) {
    this.camera.middle[0] -= dx / this.camera.scale;
    this.camera.middle[1] += dy / this.camera.scale;
    this.draw();
  }

  reset() {
    this.camera = this.whole();
    this.draw();
  }

  // The points anew, after another colouring, theme or moment.
  setPoints() {
    const { colours, sizes } = paint(this.data, this.moment, state.way, state.theme);
    const count = this.moment.shown.length;
    const colour = new Uint8Array(3 * count);
    const parts = new Map();
    colours.forEach((text, at) => {
      if (!parts.has(text)) parts.set(text, rgb(text));
      colour.set(parts.get(text), 3 * at);
    });
    this.points.set({ place: this.moment.positions, colour, factor: Float32Array.from(sizes ?? new Array(count).fill(1)) });
    if (this.crowd) this.crowd.set(crowdDots(this.data, this.run.crowd, state.way, state.theme));
    this.regions = null;
    this.emphasise();
  }

  // Marks the examples of what is chosen or pointed at; the same photos in all maps.
  emphasise() {
    const ids = idsOf(this.data, state.preview ?? state.selection);
    const strong = new Uint8Array(this.moment.shown.length);
    if (ids) for (const id of ids) if (this.moment.place[id] !== NONE) strong[this.moment.place[id]] = 1;
    this.dimmed = Boolean(ids);
    this.points.set({ strong });
    this.draw();
  }

  // Brings what is chosen into view: an example or a cluster that lies outside.
  reveal() {
    const chosen = state.selection;
    const [positions, at] = chosen?.kind === "example" ? [this.moment.positions, this.moment.place[chosen.id]]
      : chosen?.kind === "cluster" && chosen.moment === this.moment ? [this.moment.centres.positions, chosen.cluster] : [null, NONE];
    if (at === NONE || !this.camera) return;
    const frame = this.frame();
    if (inView(frame, frame.x(positions[2 * at]), frame.y(positions[2 * at + 1]), -8)) return;
    this.camera.middle = [positions[2 * at], positions[2 * at + 1]];
    this.draw();
  }

  // Fewer examples, larger points; they grow a little when one comes closer.
  pointSize(frame) {
    const room = Math.min(1, Math.max(0.6, Math.min(frame.width, frame.height) / 620));
    const least = this.data.count > 60000 ? 1.8 : 3;
    return Math.max(least, room * Math.min(9, 280 / Math.sqrt(this.data.count))) * Math.min(2.6, Math.max(frame.zoom, 1) ** 0.4);
  }

  describe() {
    const { run, moment } = this;
    const own = run.test?.rules.find((rule) => rule.own);
    const error = own ? `${run.rule}: error ${own.error} on ${testWords(run, own)}` : run.rule;
    const about = moment.evaluated ? [run.method, run.checkpoint, error] : [run.method, stepText(run, moment), "training part"];
    this.caption.textContent = about.join(" · ");
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.camera) this.drawNow();
    });
  }

  drawNow() {
    const start = performance.now();
    const frame = this.frame();
    this.drawUnder(frame);
    const size = this.pointSize(frame);
    if (this.crowd) this.crowd.draw(frame, 0.5 * size, this.dimmed, INK[state.theme], this.moment.evaluated ? crowdInView(this.run.crowd, frame.bounds) : []);
    this.points.draw(frame, size, this.dimmed, INK[state.theme]);
    drawOverlay(clear(this.over, frame), frame, this);
    globalThis.magnet.lastDrawMs = performance.now() - start;
  }

  drawUnder(frame) {
    const context = clear(this.under, frame);
    if (!state.regions) return;
    this.regions ??= densityImage(this.data, this.moment, state.theme, state.way);
    context.globalAlpha = (this.dimmed ? 0.4 : 1) / Math.sqrt(Math.max(frame.zoom, 1)); // close up they are only a background
    context.drawImage(this.regions, frame.x(0), frame.y(SQUARE), frame.scale * SQUARE, frame.scale * SQUARE);
  }
}

function clear(canvas, frame) {
  const sharp = devicePixelRatio || 1;
  fitCanvas(canvas, frame, sharp);
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, frame.width, frame.height);
  context.globalAlpha = 1;
  return context;
}

const CAPTION = 50; // pixels above a map

// Pixels that a unit of a map takes which fills a stage but for a margin.
const scaleIn = (width, height, [wide, high]) => Math.max(1e-4, Math.min((width - 70) / wide, (height - 50) / high));

// As many columns of maps as make each of them largest.
function arrangeMaps() {
  const holder = byId("maps");
  const count = maps.length;
  const total = (columns) => {
    const [width, height] = [holder.clientWidth / columns, holder.clientHeight / Math.ceil(count / columns) - CAPTION];
    return maps.reduce((sum, { extent: { size } }) => sum + scaleIn(width, height, size), 0);
  };
  const columns = maps.map((_, i) => i + 1).reduce((best, one) => (total(one) > total(best) ? one : best));
  const spare = Math.ceil(count / columns) * columns > count;
  holder.querySelector(".differences")?.toggleAttribute("hidden", !spare);
  holder.style.gridTemplate = `repeat(${Math.ceil(count / columns)}, minmax(0, 1fr)) / repeat(${columns}, minmax(0, 1fr))`;
}
