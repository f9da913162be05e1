// Two or three runs: where they differ, on the examples that all of them were tested on.

function comparePanel(data) {
  const { ids, part, pairs, right } = compared(data);
  const lists = pairs.flatMap(([a, b]) => [[a, b], [b, a]].flatMap(([one, other]) =>
    onlyRight(data, ids, one, other, right[one.number], right[other.number])));
  return [
    ...differences(data, ids, part, pairs, right),
    ...(lists.length ? lists : [el("p", { class: "soft", textContent: "No example is right in one run and wrong in another." })]),
  ];
}

// How often the runs agree, pair by pair; each number leads to its examples.
function differences(data, ids, part, pairs, right) {
  return [
    el("h2", { textContent: "Where the runs differ" }),
    el("p", { class: "soft", textContent: `Of ${plural(ids.length, `${part} example`)} on the page, each run at the step that was evaluated and under its own rule.` }),
    el("table", { class: "agreement" },
      el("tr", {}, el("td"), ["both right", "only the first", "only the second", "both wrong"].map((text) => el("th", { class: "number", textContent: text }))),
      pairs.map(([a, b]) => pairRow(data, ids, a, b, right[a.number], right[b.number]))),
  ];
}

function compared(data) {
  const all = Array.from({ length: data.count }, (_, id) => id);
  const tested = all.filter((id) => data.runs.every((run) => PARTS[run.split[id]] === "test"));
  const pairs = data.runs.flatMap((a, i) => data.runs.slice(i + 1).map((b) => [a, b]));
  const right = data.runs.map((run) => (id) => !isWrong(data, run.end, id));
  return { ...(tested.length ? { ids: tested, part: "test" } : { ids: all, part: "shown" }), pairs, right };
}

// Three maps in two columns leave room for the table beside them.
function startCompare(data) {
  if (data.runs.length < 3) return;
  const { ids, part, pairs, right } = compared(data);
  const split = ids.filter((id) => new Set(right.map((known) => known(id))).size > 1);
  byId("maps").append(el("div", { class: "differences" }, differences(data, ids, part, pairs, right),
    el("h3", { textContent: `Right in one, wrong in another: ${plural(split.length, "example")}` }),
    el("div", { class: "grid" }, split.slice(0, 60).map((id) => thumb(data, id, 44)))));
}

function pairRow(data, ids, a, b, rightA, rightB) {
  const groups = [[true, true], [true, false], [false, true], [false, false]].map(([x, y]) => ids.filter((id) => rightA(id) === x && rightB(id) === y));
  const words = ["both right", `right in ${a.name}, wrong in ${b.name}`, `wrong in ${a.name}, right in ${b.name}`, "both wrong"];
  return el("tr", {}, el("td", { class: "name", textContent: `${a.name} and ${b.name}` }), groups.map((group, i) => el("td", { class: "number" },
    group.length ? el("button", {
      class: "link", type: "button", textContent: whole(group.length), "aria-label": `${whole(group.length)} ${words[i]}`,
      onclick: () => select({ kind: "found", ids: group, text: words[i], run: a.number }),
    }) : "0")));
}

function onlyRight(data, ids, one, other, rightOne, rightOther) {
  const found = ids.filter((id) => rightOne(id) && !rightOther(id)).sort((a, b) => lossOf(other.end, b) - lossOf(other.end, a));
  if (!found.length) return [];
  return [
    el("h3", { class: "name", textContent: `Right in ${one.name}, wrong in ${other.name}` }),
    ...found.slice(0, 8).map((id) => el("button", { class: "item differing", ...choosing({ kind: "example", id, run: other.number }) },
    el("span", { class: "thumb" }, look(data, id, 52)),
    el("div", {}, el("div", { class: "name" }, el("b", { text: data.classes[data.labels[id]] }), ` taken for `,
      el("b", { class: "bad", text: data.classes[predictionOf(other.end, id)] })),
    el("div", { class: "soft small name", text: data.titles[id] })))),
    found.length > 8 ? el("p", { class: "soft small", textContent: `and ${whole(found.length - 8)} more: choose the number above.` }) : null,
  ];
}
