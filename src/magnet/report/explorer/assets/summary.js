// The first panel: how well the run does, and what is worth a look, each a click away.

const PAIRS = 5;
const FIRST_SUSPECTS = 4;
const UNUSUAL = 4;

function summaryPanel(data) {
  const run = data.runs[summaryChoice.run];
  const moment = momentOf(run);
  return [
    runChoice(data, summaryChoice) && el("div", { class: "tools" }, runChoice(data, summaryChoice)),
    el("h2", { class: "name", textContent: `The run ${run.name}` }),
    el("p", { class: "soft", textContent: runWords(data, run) }),
    momentNote(run, moment),
    ...(moment.evaluated ? errors(run) : [el("div", { class: "facts" }, fact(percent(wrongShare(data, moment)), "kNC error, training part"))]),
    ...confusions(data, run, moment),
    ...firstSuspects(data, run, moment),
    ...unusualModes(data, run, moment),
  ];
}

const summaryChoice = { run: 0 };

// "Trained with the method magnet (network linear, preset vectors, seed 0) on digits: 1,797 vectors of 10 classes. Shown as it
// was at step 12 of 40, its best by validation."
function runWords(data, run) {
  const kind = data.kind === "images" ? "image" : data.pictures.kind === "features" ? "row" : "vector";
  const [which, step] = run.checkpoint.split(": ");
  return `Trained with the method ${run.method} (${run.about}) on ${data.name}: ${plural(data.total, kind)} of ${whole(data.classes.length)} classes. `
    + `Shown as it was at ${step}${which === "best" ? ", its best by validation" : ""}.`;
}

const wrongShare = (data, moment) => Array.from(moment.shown).filter((id) => isWrong(data, moment, id)).length / moment.shown.length;

function errors(run) {
  if (!run.test) return [el("p", { class: "soft", textContent: "The data has no test part to measure an error on." })];
  const { rules } = run.test;
  const sampled = rules.find((rule) => rule.n < run.test.n);
  const all = testWords(run, rules.find((rule) => rule !== sampled));
  return [
    el("div", { class: "facts", id: "errors" }, rules.map((rule) => fact(rule.error, `error, ${rule.name}`, rule.own ? "own" : ""))),
    el("p", { class: "soft small", textContent: `On ${all}${sampled ? `; ${sampled.name} on a sample of ${whole(sampled.n)}` : ""}. Framed: the rule that ${run.method} is judged by.` }),
  ];
}

// What the error under a rule is of: "3,669 test examples, plain view", or "5,000 of 150,000 test examples".
function testWords(run, rule) {
  const sample = rule.n < run.test.n ? `a sample of ${whole(rule.n)} of ` : "";
  return `${sample}${plural(run.test.n, "test example")}${run.test.images ? ", plain view" : ""}`;
}

// Pairs of a label and another prediction, most frequent first; of the test part where it is shown.
function findConfusions(data, run, moment) {
  const tested = Array.from(moment.shown).filter((id) => PARTS[run.split[id]] === "test");
  const among = tested.length ? tested : Array.from(moment.shown);
  const pairs = new Map();
  for (const id of among) {
    if (!isWrong(data, moment, id)) continue;
    const key = data.labels[id] * data.classes.length + predictionOf(moment, id);
    if (!pairs.has(key)) pairs.set(key, { label: data.labels[id], taken: predictionOf(moment, id), ids: [] });
    pairs.get(key).ids.push(id);
  }
  const found = [...pairs.values()].sort((a, b) => b.ids.length - a.ids.length);
  found.forEach((pair) => pair.ids.sort((a, b) => lossOf(moment, b) - lossOf(moment, a)));
  const sizes = new Map();
  for (const id of among) sizes.set(data.labels[id], (sizes.get(data.labels[id]) ?? 0) + 1);
  return { found, sizes, part: tested.length ? "test" : moment.evaluated ? "shown" : "training" };
}

function confusions(data, run, moment) {
  const { found, sizes, part } = findConfusions(data, run, moment);
  if (!found.length) return [el("h3", { textContent: "Confusions" }), el("p", { class: "soft", textContent: `No ${part} example is taken for another class.` })];
  return [el("h3", { textContent: "Most confused" }), ...found.slice(0, PAIRS).map((pair) => {
    const text = `${data.classes[pair.label]} taken for ${data.classes[pair.taken]}`;
    const beside = typical(data, moment, pair.taken)[0];
    return el("button", { class: "item confusion", ...choosing({ kind: "found", ids: pair.ids, text, run: run.number, classes: [pair.label, pair.taken] }) },
    el("span", { class: "grid pair" }, [pair.ids[0], beside].filter((id) => id !== undefined).map((id) => el("span", { class: "thumb" }, look(data, id, data.pictures.kind === "features" ? 36 : 60)))),
    el("div", {}, el("div", { class: "name" }, el("b", { text: data.classes[pair.label] }), " taken for ", el("b", { class: "bad", text: data.classes[pair.taken] })),
      el("div", { class: "soft small", textContent: `${whole(pair.ids.length)} of ${plural(sizes.get(pair.label), `${part} example`)}` })));
  })];
}

function firstSuspects(data, run, moment) {
  const ids = suspects(data, { run: run.number, by: "doubt", part: "all", marked: "all" }, FIRST_SUSPECTS).filter((id) => doubtOf(run, id) > DOUBT);
  if (!ids.length) return [];
  return [
    el("h3", { textContent: "Labels to look at first" }),
    ...ids.map((id) => suspect(data, run, id)),
    el("button", { class: "link", type: "button", textContent: "All suspects", onclick: () => change({ tab: "Suspects" }, "tab") }),
  ];
}

// The clusters that are furthest from any other cluster of their class.
function unusualModes(data, run, moment) {
  const { kin, sizes } = moment.centres;
  const order = [...kin.keys()].filter((cluster) => kin[cluster] > 0 && sizes[cluster] > 1 && moment.members[cluster].length)
    .sort((a, b) => kin[b] - kin[a]).slice(0, UNUSUAL);
  if (!order.length) return [];
  return [el("h3", { textContent: "Modes most unlike the rest of their class" }), ...order.map((cluster) => el("button",
    { class: "item unusual", ...choosing({ kind: "cluster", moment, cluster }) },
  el("span", { class: "grid" }, moment.members[cluster].slice(0, data.pictures.kind === "features" ? 2 : 3).map((id) => el("span", { class: "thumb" }, look(data, id, 44)))),
  el("div", {}, el("div", { class: "name" }, el("b", { text: modeName(data, moment, cluster) })),
    el("div", { class: "soft small", textContent: `${sigma(kin[cluster])} from the nearest other mode, ${plural(sizes[cluster], "example")}` }),
    el("div", { class: "soft small name", text: apartWords(data, moment, cluster) }))))];
}
