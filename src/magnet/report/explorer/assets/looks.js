// What an example looks like: its thumbnail, the vector as a small image, or its values as bars.

function prepareLooks(data) {
  const { pictures } = data;
  if (pictures.kind === "vectors") return Promise.resolve();
  return Promise.all(pictures.sheets.map(async (source) => {
    const sheet = new Image();
    sheet.src = source;
    await sheet.decode();
    return sheet;
  })).then((sheets) => { pictures.sheets = sheets; });
}

// Width over height.
const lookRatio = ({ kind, side }) => (kind === "vectors" && !side ? 1.6 : 1);

function drawLook(context, data, id, x, y, width, height) {
  const { pictures } = data;
  if (pictures.kind === "images") {
    const { side, columns, sheets } = pictures;
    const at = id % columns ** 2;
    const [left, top] = [(at % columns) * side, Math.floor(at / columns) * side];
    context.drawImage(sheets[Math.floor(id / columns ** 2)], left, top, side, side, x, y, width, height);
  } else if (pictures.side) {
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
    const { side, values } = pictures;
    const image = new ImageData(side, side);
    for (let i = 0; i < side * side; i += 1) {
      image.data.fill(255 - values[id * side * side + i], 4 * i, 4 * i + 3);
      image.data[4 * i + 3] = 255;
    }
    const canvas = el("canvas", { width: side, height: side });
    canvas.getContext("2d").putImageData(image, 0, 0);
    pictures.squares.set(id, canvas);
  }
  return pictures.squares.get(id);
}

function drawBars(context, { values, kept, low, high }, id, x, y, width, height) {
  const zero = low < 0 && high > 0 ? (high / (high - low)) * height : low >= 0 ? height : 0;
  context.fillStyle = "#fff";
  context.fillRect(x, y, width, height);
  context.fillStyle = "#0072b2";
  for (let i = 0; i < kept; i += 1) {
    const top = (1 - values[id * kept + i] / 255) * height;
    context.fillRect(x + (i * width) / kept, y + Math.min(top, zero), Math.max(width / kept, 0.5), Math.abs(top - zero));
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

function valuesText({ pictures }, id) {
  if (pictures.kind !== "vectors" || pictures.side) return "";
  const { values, kept, width, low, high } = pictures;
  const some = Array.from(values.subarray(id * kept, id * kept + Math.min(kept, 6)));
  const text = some.map((v) => (low + (v / 255) * (high - low)).toPrecision(2)).join(", ");
  const all = kept < width ? `${kept} of ${width} values: ` : "";
  return `${all}${text}${width > 6 ? ", …" : ""}`;
}
