// What an example looks like: its picture, a vector of pixels as a small image, or its features as bars.

// The sheet of pictures at `at`, once it is there; until then null, and `then` is called when it comes.
function sheetOf(pictures, at, then) {
  pictures.loaded ??= [];
  const known = pictures.loaded[at];
  if (known?.complete && known.naturalWidth) return known;
  const sheet = known ?? new Image();
  sheet.addEventListener("load", then, { once: true });
  if (!known) {
    pictures.loaded[at] = sheet;
    sheet.src = pictures.sheets[at];
  }
  return null;
}

// Where the picture of an example is: [pictures, place on them]; the large one where there is one and it is wanted.
function pictureOf({ pictures }, id, large) {
  const { large: found } = pictures;
  if (large && found) {
    found.places ??= new Map(Array.from(found.ids, (one, at) => [one, at]));
    if (found.places.has(id)) return [found, found.places.get(id)];
  }
  return [pictures, id];
}

// Width over height.
const lookRatio = ({ kind }) => (kind === "features" ? 1.6 : 1);

// Draws an example; a picture that is still being read is drawn by `again` when it is there.
function drawLook(context, data, id, x, y, width, height, again) {
  const { pictures } = data;
  if (pictures.kind === "images") {
    const sharp = context.canvas.clientWidth ? context.canvas.width / context.canvas.clientWidth : 1;
    const [from, at] = pictureOf(data, id, width * sharp > 1.3 * pictures.side);
    const drawn = drawCell(context, from, at, x, y, width, height, again);
    if (!drawn && from !== pictures) drawCell(context, pictures, id, x, y, width, height, () => {}); // until the large one is read
  } else if (pictures.kind === "squares") {
    context.imageSmoothingEnabled = false;
    context.drawImage(squareOf(pictures, id), x, y, width, height);
    context.imageSmoothingEnabled = true;
  } else {
    drawBars(context, data, id, x, y, width, height);
  }
}

// Draws one picture of a sheet; says whether the sheet was there.
function drawCell(context, pictures, at, x, y, width, height, again) {
  const { side, columns } = pictures;
  const sheet = sheetOf(pictures, Math.floor(at / columns ** 2), again);
  const cell = at % columns ** 2;
  if (sheet) context.drawImage(sheet, (cell % columns) * side, Math.floor(cell / columns) * side, side, side, x, y, width, height);
  return Boolean(sheet);
}

function squareOf(pictures, id) {
  pictures.squares ??= new Map();
  if (!pictures.squares.has(id)) {
    const { side, pixels } = pictures;
    const image = new ImageData(side, side);
    for (let i = 0; i < side * side; i += 1) {
      image.data.fill(pixels[id * side * side + i], 4 * i, 4 * i + 3);
      image.data[4 * i + 3] = 255;
    }
    const canvas = el("canvas", { width: side, height: side });
    canvas.getContext("2d").putImageData(image, 0, 0);
    pictures.squares.set(id, canvas);
  }
  return pictures.squares.get(id);
}

const BARS = 32; // of many features, these spread over all

// Every bar between the lowest and the highest value that its feature has on the page, in the colour of the class.
function drawBars(context, data, id, x, y, width, height) {
  const { values, columns, low, high } = data.pictures;
  const count = Math.min(columns.length, BARS);
  context.fillStyle = PAPER[state.theme];
  context.fillRect(x, y, width, height);
  context.fillStyle = classColours(data, state.theme)[data.labels[id]];
  for (let bar = 0; bar < count; bar += 1) {
    const i = Math.floor((bar * columns.length) / count);
    const range = high[i] - low[i];
    const tall = range > 0 ? ((values[id * columns.length + i] - low[i]) / range) * height : 0;
    context.fillRect(x + (bar * width) / count, y + height - tall, Math.max(width / count - 0.5, 0.5), tall);
  }
}

// The height at which examples stand in rows: photographs so large that a label can be told from them.
const pictureSize = ({ pictures }) => (pictures.kind === "images" ? (narrow() ? 114 : 88) : pictures.kind === "squares" ? 62 : 40);

// How many of these fill a row of the panel.
const inARow = (data) => Math.max(1, Math.floor((byId("panel").clientWidth - 32 + 6) / (pictureSize(data) * lookRatio(data.pictures) + 6)));

// A canvas with the look of an example, `size` pixels high.
function look(data, id, size) {
  const photo = data.pictures.kind === "images" && data.pictures.side > 32;
  const sharp = Math.max(devicePixelRatio || 1, photo ? 1 : 2);
  const width = Math.round(size * lookRatio(data.pictures));
  const canvas = el("canvas", {
    width: width * sharp, height: size * sharp, role: "img", "aria-label": `${data.classes[data.labels[id]]}, ${data.titles[id]}`,
    class: photo ? "look photo" : "look", style: { width: `${width}px`, height: `${size}px` },
  });
  const draw = () => drawLook(canvas.getContext("2d"), data, id, 0, 0, canvas.width, canvas.height, draw);
  draw();
  return canvas;
}

// A look that can be clicked; `note` stands in its corner, `odd` marks an example of another class than its company.
function thumb(data, id, size, { note = "", odd = false, run = 0, act = null } = {}) {
  return el("button", {
    type: "button", class: odd ? "thumb odd" : "thumb", "aria-label": `${data.classes[data.labels[id]]}, ${data.titles[id]}`,
    onclick: act ?? (() => select({ kind: "example", id, run })),
    onpointerenter: (event) => {
      if (event.pointerType !== "mouse") return;
      preview({ kind: "example", id, run });
      showTooltip(data, id, event, data.runs[run]);
    },
    onpointerleave: () => { preview(null); hideTooltip(); },
  }, look(data, id, size), note && el("small", { textContent: note }));
}
