// Start: read the data, draw the maps, then the rest around them.

const maps = [];

function heading(data) {
  byId("title").textContent = data.name;
  const shown = data.count < data.total ? `${whole(data.count)} of ${plural(data.total, "example")}` : plural(data.total, "example");
  byId("subtitle").textContent = `${shown}, ${whole(data.classes.length)} classes`;
}

async function start() {
  const data = readData();
  data.byClass = data.classes.map(() => []);
  data.labels.forEach((label, id) => data.byClass[label].push(id));
  data.lossScale = lossScale(data);
  globalThis.magnet = { data, state, maps, select, palette, exact, ready: false, lastClickMs: null };
  heading(data);
  await prepareLooks(data);
  startControls(data);
  maps.push(...data.runs.map((run) => new MapView(data, run, byId("maps"))));
  // All that takes room comes before the maps, so that these are made in their final size.
  startTime(data);
  drawLegend(data);
  startPanel(data);
  startSearch(data);
  await Promise.all(maps.map((view) => view.start()));
  on("selection preview layers", () => maps.forEach((view) => view.draw()));
  on("selection", markLegend);
  on("look", () => { drawLegend(data); maps.forEach((view) => view.repaint()); });
  await Promise.all(maps.map((view) => view.fit()));
  globalThis.magnet.ready = true;
}

start();
