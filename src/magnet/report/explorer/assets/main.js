// Start: read the data, draw the maps, then the rest around them.

const maps = [];

function heading(data) {
  byId("title").textContent = data.name;
  const shown = data.count < data.total ? `a sample of ${whole(data.count)} of ${plural(data.total, "example")}` : plural(data.total, "example");
  byId("subtitle").textContent = `${shown}, ${whole(data.classes.length)} classes`;
}

function start() {
  const data = readData();
  data.lossScale = lossScale(data);
  globalThis.magnet = { data, state, maps, select, palette, exact, ready: false, lastClickMs: null, lastDrawMs: null };
  heading(data);
  startMarks(data);
  startControls(data);
  maps.push(...data.runs.map((run) => new MapView(data, run, byId("maps"))));
  // All that takes room comes before the maps, so that these are made in their final size.
  startTime(data);
  drawLegend(data);
  startPanel(data);
  startSheet();
  startFronts(data);
  startSearch(data);
  startCompare(data);
  arrangeMaps();
  addEventListener("resize", arrangeMaps);
  maps.forEach((view) => view.start());
  on("selection preview", () => maps.forEach((view) => view.emphasise()));
  on("layers", () => maps.forEach((view) => view.draw()));
  on("selection", () => { markLegend(); maps.forEach((view) => view.reveal()); });
  on("look", () => { drawLegend(data); maps.forEach((view) => view.setPoints()); });
  globalThis.magnet.ready = true;
}

start();
