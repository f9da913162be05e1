// What an example looks like: its thumbnail, a vector of pixels as a small image, or its features as bars.

function prepareLooks(data) {
  const { pictures } = data;
  if (pictures.kind !== "images") return Promise.resolve();
  return Promise.all(pictures.sheets.map(async (source) => {
    const sheet = new Image();
    sheet.src = source;
    await sheet.decode();
    return sheet;
  })).then((sheets) => { pictures.sheets = sheets; });
}

// Width over height.
const lookRatio = ({ kind }) => (kind === "features" ? 1.6 : 1);

function drawLook(context, data, id, x, y, width, height) {
  const { pictures } = data;
  if (pictures.kind === "images") {
    const { side, columns, sheets } = pictures;
    const at = id % columns ** 2;
    const [left, top] = [(at % columns) * side, Math.floor(at / columns) * side];
    context.drawImage(sheets[Math.floor(id / columns ** 2)], left, top, side, side, x, y, width, height);
  } else if (pictures.kind === "squares") {
    context.imageSmoothingEnabled = false;
    context.drawImage(squareOf(pictures, id), x, y, width, height);
    context.imageSmoothingEnabled = true;
  } else {
    drawBars(context, pictures, id, x, y, width, height);
  }
}

function squareOf(pictures, id) {
  pictures.squares ??= new Map();
  if (!pictures.squares.has(id)) {
    const { side, pixels } = pictures;
    const image = new ImageData(side, side);
    for (let i = 0; i < side * side; i += 1) {
      image.data.fill(255 - pixels[id * side * side + i], 4 * i, 4 * i + 3);
      image.data[4 * i + 3] = 255;
    }
    const canvas = el("canvas", { width: side, height: side });
    canvas.getContext("2d").putImageData(image, 0, 0);
    pictures.squares.set(id, canvas);
  }
  return pictures.squares.get(id);
}

// Every bar between the lowest and the highest value that its feature has on the page.
function drawBars(context, { values, columns, low, high }, id, x, y, width, height) {
  const count = columns.length;
  context.fillStyle = "#fff";
  context.fillRect(x, y, width, height);
  context.fillStyle = "#0072b2";
  for (let i = 0; i < count; i += 1) {
    const range = high[i] - low[i];
    const tall = range > 0 ? ((values[id * count + i] - low[i]) / range) * height : 0;
    context.fillRect(x + (i * width) / count, y + height - tall, Math.max(width / count, 0.5), tall);
  }
}

// A canvas with the look of an example, `size` pixels high.
function look(data, id, size) {
  const sharp = data.pictures.kind === "images" ? 1 : 2;
  const width = Math.round(size * lookRatio(data.pictures));
  const canvas = el("canvas", {
    width: width * sharp, height: size * sharp, role: "img", "aria-label": data.names[id],
    class: data.pictures.kind === "images" ? "look photo" : "look", style: { width: `${width}px`, height: `${size}px` },
  });
  drawLook(canvas.getContext("2d"), data, id, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// A look that can be clicked; `note` stands in its corner, `odd` marks an example of another class than its company.
function thumb(data, id, size, { note = "", odd = false, run = 0 } = {}) {
  return el("button", {
    type: "button", class: odd ? "thumb odd" : "thumb", "aria-label": `${data.classes[data.labels[id]]}, ${data.names[id]}`,
    onclick: () => select({ kind: "example", id, run }),
    onmouseenter: (event) => { preview({ kind: "example", id, run }); showTooltip(data, id, event, data.runs[run]); },
    onmouseleave: () => { preview(null); hideTooltip(); },
  }, look(data, id, size), note && el("small", { textContent: note }));
}

// [name, value] of the features of an example, as numbers for people; nothing for pictures.
function features({ pictures }, id) {
  if (pictures.kind !== "features") return [];
  const { values, columns, names } = pictures;
  return columns.map((column, i) => [names ? names[i] : `column ${column}`, exact(values[id * columns.length + i])]);
}

function featuresText(data, id) {
  const all = features(data, id);
  return all.slice(0, 4).map(([name, value]) => `${name} ${value}`).join(", ") + (all.length > 4 ? ", …" : "");
}

function featuresTable(data, id) {
  const all = features(data, id);
  if (!all.length) return [];
  const { width } = data.pictures;
  const note = all.length < width ? ` ${all.length} of ${whole(width)}` : "";
  return [
    el("h3", {}, "Values", el("span", { class: "soft", textContent: note })),
    el("table", { id: "features" }, all.map(([name, value]) => el("tr", {},
      el("td", { class: "name", textContent: name }), el("td", { class: "number", textContent: value })))),
  ];
}
