// The points of a map, drawn by WebGL, or on an ordinary canvas where there is none.

const VERTEX = `
precision highp float;
attribute vec2 place; attribute vec3 colour; attribute float factor; attribute float strong;
uniform vec2 origin; uniform vec2 scale; uniform float size; uniform float sharp; uniform float dimmed; uniform float layer;
varying vec4 tint; varying float edge;
void main() {
  gl_Position = strong == layer ? vec4((place - origin) * scale, 0.0, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = sharp * (size * factor + 3.0 * strong * dimmed);
  tint = vec4(colour, dimmed > 0.5 ? (strong > 0.5 ? 1.0 : 0.16) : 0.85);
  edge = 2.0 / gl_PointSize;
}`;
const FRAGMENT = `
precision highp float;
varying vec4 tint; varying float edge;
uniform vec3 ring; uniform float layer; uniform float sharp;
void main() {
  float far = length(gl_PointCoord - 0.5) * 2.0;
  float alpha = tint.a * (1.0 - smoothstep(1.0 - edge, 1.0, far));
  vec3 shown = layer > 0.5 && far > 1.0 - 1.1 * sharp * edge ? ring : tint.rgb;
  gl_FragColor = vec4(shown * alpha, alpha);
}`;

class Points {
  constructor(canvas) {
    this.canvas = canvas;
    const gl = (this.gl = canvas.getContext("webgl", { antialias: false }));
    if (!gl) { this.flat = canvas.getContext("2d"); return; }
    this.program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    gl.useProgram(this.program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.buffers = {};
    const types = { place: [2, gl.UNSIGNED_SHORT, false], colour: [3, gl.UNSIGNED_BYTE, true], factor: [1, gl.FLOAT, false], strong: [1, gl.UNSIGNED_BYTE, false] };
    for (const [name, [width, type, normalised]] of Object.entries(types)) {
      this.buffers[name] = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      const at = gl.getAttribLocation(this.program, name);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, width, type, normalised, 0, 0);
    }
    this.uniforms = Object.fromEntries(["origin", "scale", "size", "sharp", "dimmed", "layer", "ring"]
      .map((name) => [name, gl.getUniformLocation(this.program, name)]));
  }

  // Any of place (Uint16Array 2n), colour (Uint8Array 3n), factor (Float32Array n) and strong (Uint8Array n).
  set(values) {
    Object.assign(this.values ??= {}, values);
    this.count = this.values.factor?.length ?? 0;
    if (!this.gl) return;
    for (const [name, array] of Object.entries(values)) {
      this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
      this.gl.bufferData(this.gl.ARRAY_BUFFER, array, this.gl.DYNAMIC_DRAW);
    }
  }

  // Of all points, or of some stretches of them, [first, end].
  draw(frame, size, dimmed, ring, stretches = [[0, this.count]]) {
    const sharp = devicePixelRatio || 1;
    fitCanvas(this.canvas, frame, sharp);
    if (!this.gl) { this.drawFlat(frame, size, dimmed, sharp, stretches); return; }
    const { gl, uniforms } = this;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(uniforms.origin, frame.middle[0], frame.middle[1]);
    gl.uniform2f(uniforms.scale, (2 * frame.scale) / frame.width, (2 * frame.scale) / frame.height);
    gl.uniform1f(uniforms.size, size);
    gl.uniform1f(uniforms.sharp, sharp);
    gl.uniform1f(uniforms.dimmed, dimmed ? 1 : 0);
    gl.uniform3fv(uniforms.ring, rgb(ring).map((v) => v / 255));
    for (const layer of dimmed ? [0, 1] : [0]) { // what is chosen lies above the rest
      gl.uniform1f(uniforms.layer, layer);
      for (const [first, end] of stretches) gl.drawArrays(gl.POINTS, first, end - first);
    }
  }

  drawFlat(frame, size, dimmed, sharp, stretches) {
    const { place, colour, factor, strong } = this.values;
    const context = this.flat;
    context.setTransform(sharp, 0, 0, sharp, 0, 0);
    context.clearRect(0, 0, frame.width, frame.height);
    for (const [first, end] of stretches) for (let i = first; i < end; i += 1) {
      const side = size * factor[i];
      context.globalAlpha = dimmed && !strong[i] ? 0.16 : 0.85;
      context.fillStyle = `rgb(${colour[3 * i]} ${colour[3 * i + 1]} ${colour[3 * i + 2]})`;
      context.fillRect(frame.x(place[2 * i]) - side / 2, frame.y(place[2 * i + 1]) - side / 2, side, side);
    }
  }
}

function fitCanvas(canvas, { width, height }, sharp) {
  const [wide, high] = [Math.round(width * sharp), Math.round(height * sharp)];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
}
