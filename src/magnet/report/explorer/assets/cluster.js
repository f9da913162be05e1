// The panel of one cluster: its exemplars, how tight it is, what sets it apart, and what threatens it.

function clusterPanel(data, { moment, cluster }) {
  const label = moment.centres.labels[cluster];
  const { run } = moment;
  const facts = clusterFacts(data, moment, cluster);
  return [
    el("h2", {}, dot(classColours(data, state.theme)[label]),
      el("span", { class: "name", text: modeName(data, moment, cluster) })),
    el("p", { class: "soft", textContent: `cluster ${cluster} of ${run.name}, at ${stepText(run, moment)}` }),
    el("div", { class: "facts" },
      fact(whole(moment.centres.sizes[cluster]), "training examples"), fact(sigma(facts.spread), "spread"),
      fact(lossText(facts.loss), "mean loss"), fact(percent(facts.wrong), "wrong")),
    ...featuresApart(data, ...sidesOf(data, moment, cluster)),
    el("h3", { textContent: "Exemplars, nearest to the centre first" }),
    exemplars(data, moment, cluster, 28),
    el("h3", { textContent: "Nearest impostor clusters" }),
    ...impostors(data, moment, cluster),
    el("p", { class: "soft small" }, el("button", {
      class: "link", type: "button", textContent: "All modes of this class", onclick: () => select({ kind: "class", label }, "Modes"),
    })),
  ];
}

const fact = (value, name, kind = "") => el("div", { class: kind }, el("b", { textContent: value }), el("span", { textContent: name }));

function exemplars(data, moment, cluster, count, size = pictureSize(data)) {
  const ids = moment.members[cluster].slice(0, count);
  if (!ids.length) return el("p", { class: "soft", textContent: "None of its members is shown here." });
  return el("div", { class: "grid" }, ids.map((id) => thumb(data, id, size, { run: moment.run.number })));
}

function impostors(data, moment, cluster) {
  const { perCentre, impostors: ids, distances } = moment.centres;
  const classes = classColours(data, state.theme);
  const near = Array.from({ length: perCentre }, (_, i) => cluster * perCentre + i).filter((at) => ids[at] !== NONE);
  return near.map((at) => el("button", { class: "item", ...choosing({ kind: "cluster", moment, cluster: ids[at] }) },
  dot(classes[moment.centres.labels[ids[at]]]),
  el("div", {}, el("div", { class: "name", text: modeName(data, moment, ids[at]) }),
    el("div", { class: "soft small", textContent: sigma(distances[at]) })),
  el("span", { class: "grid" }, moment.members[ids[at]].slice(0, data.pictures.kind === "features" ? 2 : 3).map((id) => look(data, id, 44)))));
}
