// Time: a slider over all refreshes that were kept and the step that was evaluated; each map moves from one to the next.

const GLIDE = 450; // milliseconds from one moment to the next
const MANY = 40000; // examples above which the way is one jump
const timeline = { steps: [], evaluated: 0, text: "" };

// The points on the slider are the steps of all runs that kept any; each run shows its last moment up to there.
function startTime(data) {
  const moving = data.runs.filter((run) => run.moments.length > 1);
  timeline.steps = [...new Set(moving.flatMap((run) => run.moments.map((moment) => moment.step)))].sort((a, b) => a - b);
  timeline.evaluated = Math.max(0, timeline.steps.indexOf(moving[0]?.end.step));
  timeline.last = Math.max(...data.runs.map((run) => run.steps));
  timeline.text = new Set(data.runs.map((run) => run.end.step)).size === 1
    ? stepText(data.runs[0], data.runs[0].end) : "evaluated step of each run";
  const slider = byId("slider");
  const last = Math.max(timeline.steps.length - 1, 0);
  byId("time").hidden = last === 0;
  slider.max = last;
  state.time = timeline.evaluated;
  // As wide as its longest text, so that the slider keeps its place.
  const texts = [timeline.text, `step ${whole(timeline.last)} of ${whole(timeline.last)}`];
  byId("moment").style.minWidth = `${Math.max(...texts.map((words) => words.length)) * 0.53}em`;
  byId("evaluated").style.left = `calc(8px + ${last ? timeline.evaluated / last : 0} * (100% - 16px))`;
  slider.addEventListener("input", () => change({ time: Number(slider.value) }, "time"));
  byId("play").addEventListener("click", () => play(last));
  on("time", () => showTime(data));
  showTimeText();
}

function showTimeText() {
  const { steps, evaluated, text, last } = timeline;
  const words = state.time === evaluated ? text : `step ${whole(steps[state.time] ?? 0)} of ${whole(last)}`;
  byId("slider").value = state.time;
  byId("moment").textContent = words;
  byId("slider").setAttribute("aria-valuetext", words);
}

function showTime(data) {
  showTimeText();
  const before = maps.map((view) => view.moment);
  maps.forEach((view) => view.goTo(momentAt(view.run)));
  followCluster(data, before);
  if (state.way === "cluster") drawLegend(data);
  change({}, "tab");
}

function momentAt(run) {
  if (state.time === timeline.evaluated || run.moments.length === 1) return run.end;
  const step = timeline.steps[state.time];
  return run.moments.filter((moment) => moment.step <= step).at(-1) ?? run.moments[0];
}

// A cluster that is chosen becomes the one of the new moment that most of its members are in.
function followCluster(data, before) {
  const chosen = state.selection;
  if (chosen?.kind !== "cluster" || !before.includes(chosen.moment)) return;
  const moment = momentOf(chosen.moment.run);
  if (moment === chosen.moment) return;
  const votes = new Map();
  for (const id of chosen.moment.members[chosen.cluster]) {
    const cluster = moment.place[id] === NONE ? NONE : moment.clusters[moment.place[id]];
    if (cluster !== NONE) votes.set(cluster, (votes.get(cluster) ?? 0) + 1);
  }
  const [most] = [...votes].sort((a, b) => b[1] - a[1]);
  change({ selection: most ? { kind: "cluster", moment, cluster: most[0] } : null }, "selection");
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
  this.describe();
  this.setPoints();
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches || moment.shown.length > MANY;
  if (!still) await this.glide(before, moment, () => turn === this.turn);
};

// The examples that both moments show move from where they were to where they will be.
MapView.prototype.glide = async function glide(before, after, current) {
  const between = new Uint16Array(after.positions);
  const start = performance.now();
  for (let t = 0; t < 1 && current();) {
    const eased = 0.5 - 0.5 * Math.cos(Math.PI * t);
    after.shown.forEach((id, at) => {
      const from = before.place[id];
      if (from === NONE) return;
      for (const axis of [0, 1]) between[2 * at + axis] = before.positions[2 * from + axis] * (1 - eased) + after.positions[2 * at + axis] * eased;
    });
    this.points.set({ place: between });
    this.draw();
    await new Promise(requestAnimationFrame);
    t = (performance.now() - start) / GLIDE;
  }
  if (!current()) return;
  this.points.set({ place: after.positions });
  this.draw();
};
