// Time: a slider over the refreshes that were kept, each map on its own way from one to the next.

const TWEEN = 9; // pictures between two moments
const MANY = 4000; // examples above which the way is one jump

// The points on the slider are the steps of all runs; each run shows its last moment up to there.
function startTime(data) {
  const steps = [...new Set(data.runs.flatMap((run) => run.moments.slice(0, -1).map((moment) => moment.step)))];
  steps.sort((a, b) => a - b);
  const ends = new Set(data.runs.map((run) => run.checkpoint));
  const end = ends.size === 1 ? [...ends][0] : "evaluated step of each run";
  const slider = byId("slider");
  byId("time").hidden = !steps.length;
  slider.max = steps.length;
  slider.value = steps.length;
  state.time = steps.length;
  slider.addEventListener("input", () => change({ time: Number(slider.value) }, "time"));
  byId("play").addEventListener("click", () => play(steps.length));
  const show = () => {
    slider.value = state.time;
    const text = state.time === steps.length ? end : `step ${whole(steps[state.time])}`;
    byId("moment").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    maps.forEach((view) => view.goTo(momentAt(view.run, steps, state.time)));
    if (state.tab === "Modes") change({}, "tab");
  };
  on("time", show);
  if (steps.length) byId("moment").textContent = end;
}

function momentAt(run, steps, time) {
  if (time === steps.length) return run.end;
  const earlier = run.moments.slice(0, -1).filter((moment) => moment.step <= steps[time]);
  return earlier.at(-1) ?? run.moments[0];
}

let playing = 0;

function play(last) {
  clearTimeout(playing);
  const next = () => {
    if (state.time >= last) return;
    change({ time: state.time + 1 }, "time");
    playing = setTimeout(next, 1300);
  };
  change({ time: 0 }, "time");
  playing = setTimeout(next, 1300);
}

MapView.prototype.goTo = async function goTo(moment) {
  if (moment === this.moment) return;
  const before = this.moment;
  const turn = (this.turn = (this.turn ?? 0) + 1); // a later move stops this one
  this.moment = moment;
  this.regions = null;
  this.describe();
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches || moment.shown.length > MANY;
  if (!still) await this.glide(before, moment, () => turn === this.turn);
  if (turn === this.turn) await this.repaint();
};

// The examples that both moments show move from where they were to where they will be.
MapView.prototype.glide = async function glide(before, after, current) {
  const colours = paint(this.data, after, state.way, state.theme).colours;
  const between = { ...after, positions: new Float32Array(after.positions), centres: after.centres };
  for (let i = 1; i < TWEEN && current(); i += 1) {
    const t = 0.5 - 0.5 * Math.cos((Math.PI * i) / TWEEN);
    after.shown.forEach((id, at) => {
      const from = before.place[id];
      for (const axis of [0, 1]) {
        const end = after.positions[2 * at + axis];
        between.positions[2 * at + axis] = from === NONE ? end : before.positions[2 * from + axis] * (1 - t) + end * t;
      }
    });
    const axis = (offset) => Array.from(after.shown, (_, at) => between.positions[2 * at + offset]);
    await Plotly.restyle(this.plot, { x: [axis(0)], y: [axis(1)], "marker.color": [colours] });
    await new Promise(requestAnimationFrame);
  }
};
