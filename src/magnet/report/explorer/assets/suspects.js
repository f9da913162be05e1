// Suspects: the examples whose labels are doubtful, as a list to check labels with; marks and list are exported together.

const LISTED = 200;
const AT_ONCE = 50; // the rest are a click away
const suspectsChoice = { run: 0, by: "doubt", part: "all", marked: "all" };

function suspects(data, { run: number, by, part, marked }, most = LISTED) {
  const run = data.runs[number];
  const moment = momentOf(run);
  const score = { doubt: (id) => doubtOf(run, id), loss: (id) => lossOf(moment, id), depth: (id) => depth(moment, id) }[by];
  const wanted = (id) => (part === "all" || PARTS[run.split[id]] === part) && (by !== "depth" || score(id) > 0)
    && (marked === "all" || (markOf(data, id)?.verdict ?? "unmarked") === marked);
  const found = [];
  for (const id of sortedBy(moment, by, score)) {
    if (wanted(id)) found.push(id);
    if (found.length >= most) break;
  }
  return found;
}

// All examples of a moment by a score, the highest first; sorted once.
function sortedBy(moment, name, score) {
  moment.sorted ??= {};
  moment.sorted[name] ??= Array.from(moment.shown).sort((a, b) => score(b) - score(a));
  return moment.sorted[name];
}

function suspectsPanel(data) {
  const choice = suspectsChoice;
  const run = data.runs[choice.run];
  const moment = momentOf(run);
  const ids = suspects(data, choice);
  const parts = ["all", ...PARTS.filter((_, i) => run.split.includes(i))];
  const pick = (key, pairs, label) => options(el("select", {
    "aria-label": label, onchange: (event) => { choice[key] = event.target.value; change({}, "tab"); },
  }), pairs, choice[key]);
  return [
    el("div", { class: "tools" },
      runChoice(data, choice),
      pick("by", [["doubt", "likeliest wrong label"], ["loss", "highest loss in this run"], ["depth", "deepest in another class"]], "Order"),
      pick("part", parts.map((part) => [part, part === "all" ? "all parts" : PART_WORDS[PARTS.indexOf(part)]]), "Part"),
      pick("marked", [["all", "marked or not"], ["unmarked", "not marked"], ["right", "marked right"], ["wrong", "marked wrong"]], "Marks"),
      el("button", { class: "plain", type: "button", id: "export", textContent: "Export CSV", onclick: () => exportSuspects(data, ids, run) })),
    momentNote(run, moment),
    el("p", { class: "soft small", textContent: `${orderText(run, moment, choice.by)} Choose one to mark its label right or wrong.` }),
    ids.length ? null : el("p", { textContent: choice.marked === "all" ? "Nothing to suspect: every example is nearest to its own cluster." : "None is marked so." }),
    ...ids.slice(0, AT_ONCE).map((id) => suspect(data, run, id, choice.by)),
    ids.length > AT_ONCE ? el("button", {
      class: "plain", type: "button", id: "more", textContent: `Show ${ids.length - AT_ONCE} more`,
      onclick: (event) => event.currentTarget.replaceWith(...ids.slice(AT_ONCE).map((id) => suspect(data, run, id, choice.by))),
    }) : null,
  ];
}

// What the list is ordered by, in words: who judges whom.
function orderText(run, moment, by) {
  if (by === "depth") return "Ordered by how many sigmas nearer an example is to a cluster of another class than to its own cluster.";
  if (by === "loss" || !moment.evaluated) {
    return `Ordered by the loss in this run: -log of the probability of the label by ${moment.evaluated ? run.rule : "kNC"}. Training examples take part in what judges them.`;
  }
  return `Ordered by the held-out loss, -log of the probability of the label, as magnet suspects has it. ${heldOutText(run)}`;
}

const heldOutText = (run) => "Training examples are judged by the others, a tenth left out at a time: "
  + `${run.heldOut.by === "features" ? "by their features as given, since the network has seen their labels" : "by their representations in this run"}. `
  + `Other examples are judged by ${run.rule} of this run.`;

function suspect(data, run, id, by = "doubt") {
  const moment = momentFor(run, id);
  const likely = by === "doubt" ? looksLike(run, id) : predictionOf(moment, id);
  const other = data.classes[moment.centres.labels[moment.impostor[moment.place[id]]]];
  const mark = markOf(data, id);
  return el("button", { class: "item suspect", ...choosing({ kind: "example", id, run: run.number }) },
  el("span", { class: "thumb" }, look(data, id, 72)),
  el("div", {},
    el("div", { class: "name" }, "labelled ", el("b", { text: data.classes[data.labels[id]] })),
    likely !== data.labels[id]
      ? el("div", { class: "name" }, by === "doubt" && moment.evaluated ? "looks like " : "taken for ", el("b", { class: "bad", text: data.classes[likely] }))
      : el("div", { class: "soft", textContent: "recognised, but with doubt" }),
    el("div", { class: "soft small name", text: `${by === "depth" ? `${sigma(depth(moment, id))} in ${other}` : `loss ${lossText(by === "doubt" ? doubtOf(run, id) : lossOf(moment, id))}`}, ${data.titles[id]}` }),
    mark && el("div", { class: `small name ${mark.verdict === "wrong" ? "bad" : "good"}`, textContent: markText(mark) })));
}

// The list as it is shown, then whatever else is marked.
function exportSuspects(data, ids, run) {
  const listed = new Set(ids);
  const rows = [...ids, ...markedIds(data).filter((id) => !listed.has(id))].map((id) => {
    const moment = momentFor(run, id);
    const mark = markOf(data, id);
    return [
      data.names[id], data.classes[data.labels[id]], data.classes[looksLike(run, id)], PARTS[run.split[id]],
      doubtOf(run, id), data.classes[predictionOf(moment, id)], depth(moment, id), run.name, mark?.verdict ?? "", mark?.label ?? "",
    ];
  });
  download("suspects.csv", csv([["path", "label", "suggestion", "split", "loss", "prediction", "depth", "run", "mark", "corrected_label"], ...rows]));
}
