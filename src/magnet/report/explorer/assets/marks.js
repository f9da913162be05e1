// What a person found of labels: right, or wrong and what it should be. Kept by the browser, for all pages on the same data.

const marks = { byName: {}, key: "" };

function startMarks(data) {
  marks.key = `magnet marks ${data.mark}`;
  try {
    marks.byName = JSON.parse(localStorage.getItem(marks.key) ?? "{}");
  } catch {
    marks.byName = {}; // a browser that keeps nothing
  }
}

const markOf = (data, id) => marks.byName[data.names[id]] ?? null;

// `verdict` "right", "wrong" or null for no mark; `label` the corrected class of a wrong one, by name.
function setMark(data, id, verdict, label = "") {
  if (verdict) marks.byName[data.names[id]] = { verdict, label };
  else delete marks.byName[data.names[id]];
  try {
    localStorage.setItem(marks.key, JSON.stringify(marks.byName));
  } catch { /* then the marks last as long as the page is open */ }
  change({}, "tab");
}

function markedIds(data) {
  return Object.keys(marks.byName).length ? data.names.flatMap((name, id) => (marks.byName[name] ? [id] : [])) : [];
}

// Two buttons and, for a wrong label, the right one.
function markTools(data, id, guess) {
  const mark = markOf(data, id);
  const own = data.classes[data.labels[id]];
  const button = (verdict, text) => el("button", {
    type: "button", class: "plain", textContent: text, "aria-pressed": String(mark?.verdict === verdict),
    onclick: () => setMark(data, id, mark?.verdict === verdict ? null : verdict, verdict === "wrong" && guess !== own ? guess : ""),
  });
  const choice = mark?.verdict === "wrong" ? options(el("select", {
    "aria-label": "Corrected label", onchange: (event) => setMark(data, id, "wrong", event.target.value),
  }), [["", "not known"], ...data.classes.filter((name) => name !== own).map((name) => [name, name])], mark.label) : null;
  return el("div", { class: "marks", id: "marks" }, el("span", { class: "soft", textContent: "The label is" }),
    button("right", "right"), button("wrong", "wrong"), choice && el("label", { class: "field" }, "should be ", choice));
}

const markText = (mark) => (mark.verdict === "right" ? "marked right" : `marked wrong${mark.label ? `, should be ${mark.label}` : ""}`);
