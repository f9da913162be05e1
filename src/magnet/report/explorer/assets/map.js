// One map: plotly draws the points (WebGL), pans and zooms; a canvas below shows regions, one above what is chosen.

const LIMIT = 220; // examples in view at which their pictures are drawn instead of points

class MapView {
  constructor(data, run, holder) {
    this.data = data;
    this.run = run;
    this.moment = run.end;
    this.under = el("canvas", { class: "under" });
    this.plot = el("div", { class: "plot" });
    this.over = el("canvas", { class: "over" });
    this.stage = el("div", {
      class: "stage", tabIndex: 0, role: "application",
      "aria-label": `Map of ${run.name}. Arrow keys go from example to example, plus and minus zoom.`,
    }, this.under, this.plot, this.over);
    this.caption = el("span");
    holder.append(el("div", { class: "map" },
      el("div", { class: "caption" }, el("h2", { class: "name", textContent: run.name }), this.caption), this.stage));
  }

  async start() {
    this.describe();
    const webgl = Boolean(document.createElement("canvas").getContext("webgl"));
    const trace = {
      type: webgl ? "scattergl" : "scatter", mode: "markers", hoverinfo: "skip", marker: { line: { width: 0 } },
    };
    const axis = { visible: false, range: [0, SQUARE], fixedrange: false };
    const layout = {
      margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, hovermode: false, dragmode: "pan",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      xaxis: { ...axis }, yaxis: { ...axis, scaleanchor: "x" },
    };
    const config = { scrollZoom: true, displayModeBar: false, doubleClick: "reset" };
    await Plotly.newPlot(this.plot, [{ ...trace, ...this.traceValues() }], layout, config);
    this.plot.on("plotly_relayout", () => { this.resize(); this.draw(); });
    this.plot.on("plotly_relayouting", () => this.draw());
    this.plot.on("plotly_afterplot", () => this.draw());
    new ResizeObserver(() => this.fit()).observe(this.stage);
    this.listen();
  }

  // Makes the plot as large as the stage.
  async fit() {
    const { width, height } = this.plot._fullLayout;
    const fits = Math.abs(width - this.stage.clientWidth) < 1 && Math.abs(height - this.stage.clientHeight) < 1;
    if (!fits) await Plotly.Plots.resize(this.plot);
    this.draw();
  }

  traceValues() {
    const { positions, shown } = this.moment;
    const { colours, sizes } = paint(this.data, this.moment, state.way, state.theme);
    const size = (this.size = this.pointSize());
    return {
      x: Array.from(shown, (_, at) => positions[2 * at]),
      y: Array.from(shown, (_, at) => positions[2 * at + 1]),
      marker: { color: colours, size: sizes ? sizes.map((s) => s * size) : size, opacity: 0.85, line: { width: 0 } },
    };
  }

  // Fewer examples, larger points; they grow a little when one comes closer.
  pointSize() {
    const zoom = this.plot._fullLayout ? this.frame().zoom : 1;
    return Math.min(8, Math.max(3.6, 260 / Math.sqrt(this.data.count))) * Math.min(2.2, zoom ** 0.35);
  }

  resize() {
    const before = this.size;
    if (Math.abs(Math.log(this.pointSize() / before)) < 0.2) return;
    const { marker } = this.traceValues();
    Plotly.restyle(this.plot, { "marker.size": [marker.size] });
  }

  // Points anew, after another colouring, theme or moment.
  repaint() {
    const { x, y, marker } = this.traceValues();
    this.regions = null;
    this.describe();
    return Plotly.restyle(this.plot, {
      x: [x], y: [y], "marker.color": [marker.color], "marker.size": [marker.size],
    });
  }

  describe() {
    const { run } = this;
    const view = run.test?.images ? ", plain view" : "";
    const error = run.test ? `: error ${run.test.error} on ${plural(run.test.n, "test example")}${view}` : "";
    const end = this.moment === run.end;
    const step = end ? run.checkpoint : `step ${whole(this.moment.step)}`;
    this.caption.textContent = [run.method, step, end ? `${run.rule}${error}` : "training part"].join(" · ");
  }

  // Between the square of the map and the pixels of the stage.
  frame() {
    const { xaxis, yaxis } = this.plot._fullLayout;
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const scale = width / (xaxis.range[1] - xaxis.range[0]);
    const tall = height / (yaxis.range[1] - yaxis.range[0]);
    return {
      width, height, scale,
      zoom: Math.max(1, (SQUARE * scale) / Math.min(width, height)), // 1: all of the map is in view
      x: (value) => (value - xaxis.range[0]) * scale,
      y: (value) => height - (value - yaxis.range[0]) * tall,
    };
  }

  zoom(factor, dx = 0, dy = 0) {
    const { xaxis, yaxis } = this.plot._fullLayout;
    const range = (axis, shift) => {
      const [low, high] = axis.range;
      const middle = (low + high) / 2 + shift * (high - low);
      return [middle - ((high - low) * factor) / 2, middle + ((high - low) * factor) / 2];
    };
    return Plotly.relayout(this.plot, { "xaxis.range": range(xaxis, dx), "yaxis.range": range(yaxis, dy) });
  }

  reset() {
    const range = [0, SQUARE];
    return Plotly.relayout(this.plot, { "xaxis.range": range.slice(), "yaxis.range": range.slice() });
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const chosen = idsOf(this.data, state.preview ?? state.selection);
      this.stage.classList.toggle("dimmed", Boolean(chosen));
      const frame = this.frame();
      this.drawUnder(frame, chosen);
      drawOverlay(clear(this.over, frame), frame, this, chosen);
    });
  }

  drawUnder(frame, chosen) {
    const context = clear(this.under, frame);
    if (!state.regions) return;
    this.regions ??= densityImage(this.data, this.moment, state.theme, state.way);
    context.globalAlpha = (chosen ? 0.4 : 1) / Math.sqrt(frame.zoom); // close up they are only a background
    context.drawImage(this.regions, frame.x(0), frame.y(SQUARE), frame.scale * SQUARE, frame.y(0) - frame.y(SQUARE));
  }
}

function clear(canvas, { width, height }) {
  const sharp = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
  }
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, width, height);
  context.globalAlpha = 1;
  return context;
}
