// Search by class or file name.

const MOST_FOUND = 12;

function startSearch(data) {
  const box = byId("search");
  const list = byId("found");
  let chosen = 0;
  let acts = [];
  const close = () => { list.hidden = true; box.setAttribute("aria-expanded", "false"); };
  const pick = (at) => {
    if (!acts[at]) return;
    acts[at]();
    close();
    openSheet();
  };
  const show = () => {
    const found = findNames(data, box.value);
    acts = found.map((row) => row.act);
    chosen = 0;
    list.replaceChildren(...found.map((row, at) => el("li", {
      role: "option", id: `found-${at}`, onmousedown: (event) => { event.preventDefault(); pick(at); },
    }, row.icon, el("span", { class: "name", text: row.text }), el("small", { text: row.note }))));
    if (!found.length) list.append(el("li", { class: "empty", textContent: "No class or file has this in its name." }));
    list.hidden = !box.value.trim();
    box.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  };
  const mark = () => {
    list.querySelectorAll("[role=option]").forEach((row, at) => {
      row.setAttribute("aria-selected", at === chosen);
      if (at === chosen) row.scrollIntoView({ block: "nearest" });
    });
    if (acts.length) box.setAttribute("aria-activedescendant", `found-${chosen}`);
    else box.removeAttribute("aria-activedescendant");
  };
  box.addEventListener("input", show);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + acts.length) % Math.max(acts.length, 1);
      mark();
    } else if (event.key === "Enter") pick(chosen);
    else if (event.key === "Escape") { box.value = ""; close(); box.blur(); }
  });
}

function findNames(data, typed) {
  const text = typed.trim().toLowerCase();
  if (!text) return [];
  data.lower ??= data.titles.map((name) => name.toLowerCase());
  const colours = classColours(data, state.theme);
  const classes = data.classes.map((name, label) => [name, label])
    .filter(([name]) => name.toLowerCase().includes(text))
    .map(([name, label]) => ({
      icon: dot(colours[label]), text: name, note: plural(data.byClass[label].length, "example"),
      act: () => select({ kind: "class", label }),
    }));
  const ids = data.lower.flatMap((name, id) => (name.includes(text) ? [id] : []));
  const files = ids.slice(0, MOST_FOUND).map((id) => ({
    icon: look(data, id, 28), text: data.titles[id], note: data.classes[data.labels[id]],
    act: () => select({ kind: "example", id }),
  }));
  const all = ids.length > 1 ? [{
    icon: dot("transparent"), text: `All ${whole(ids.length)} files with “${typed.trim()}”`, note: "",
    act: () => select({ kind: "found", ids, text: `Files with “${typed.trim()}”` }),
  }] : [];
  return [...classes.slice(0, MOST_FOUND), ...all, ...files];
}
