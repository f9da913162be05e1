// Which examples lie where: points sorted into the cells of a square, so that a look at a few costs little.

const SQUARE = 65535; // the side of the map
const BINS = 128;

class Cells {
  constructor(positions) {
    const count = positions.length / 2;
    const cell = new Uint16Array(count);
    this.starts = new Uint32Array(BINS * BINS + 1);
    for (let i = 0; i < count; i += 1) {
      cell[i] = Cells.bin(positions[2 * i + 1]) * BINS + Cells.bin(positions[2 * i]);
      this.starts[cell[i] + 1] += 1;
    }
    for (let i = 0; i < BINS * BINS; i += 1) this.starts[i + 1] += this.starts[i];
    this.order = new Uint32Array(count);
    const next = this.starts.slice();
    for (let i = 0; i < count; i += 1) { this.order[next[cell[i]]] = i; next[cell[i]] += 1; }
    this.positions = positions;
  }

  static bin(value) {
    return Math.min(BINS - 1, Math.max(0, ((value / (SQUARE + 1)) * BINS) | 0));
  }

  // The stretches of `order`, [first, end], that hold the points of a rectangle of the map; one for each row of cells.
  stretches([left, bottom, right, top]) {
    const [low, high] = [Cells.bin(bottom), Cells.bin(top)];
    return Array.from({ length: high - low + 1 }, (_, i) => [
      this.starts[(low + i) * BINS + Cells.bin(left)], this.starts[(low + i) * BINS + Cells.bin(right) + 1],
    ]);
  }

  // Places of the points inside a rectangle of the map, `most` and one more of them.
  inside(rectangle, most = Infinity) {
    const [left, bottom, right, top] = rectangle;
    const found = [];
    for (const [first, end] of this.stretches(rectangle)) {
      for (let i = first; i < end; i += 1) {
        const at = this.order[i];
        const [x, y] = [this.positions[2 * at], this.positions[2 * at + 1]];
        if (x >= left && x <= right && y >= bottom && y <= top) {
          found.push(at);
          if (found.length > most) return found;
        }
      }
    }
    return found;
  }
}

const cellsOf = (moment) => (moment.cells ??= new Cells(moment.positions));
