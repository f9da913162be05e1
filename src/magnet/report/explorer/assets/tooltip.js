// The box beside the mouse.

function showTooltip(data, id, event, run) {
  const moment = momentFor(run, id);
  fillTooltip(event, el("div", { class: "row" },
    look(data, id, data.pictures.kind === "features" ? 60 : 128),
    el("div", {},
      el("b", { class: "name", text: data.classes[data.labels[id]] }),
      isWrong(data, moment, id) && el("div", { class: "bad name", text: `taken for ${data.classes[predictionOf(moment, id)]}` }),
      el("div", { class: "soft name", text: data.titles[id] }),
      el("div", { class: "soft", textContent: `${PART_WORDS[run.split[id]]}, loss ${lossText(lossOf(moment, id))}` }),
      el("div", { class: "soft name", textContent: featuresText(data, id) }))));
}

function showClusterTooltip(data, moment, cluster, event) {
  const near = moment.members[cluster].slice(0, 4);
  fillTooltip(event,
    el("b", { class: "name", text: modeName(data, moment, cluster) }),
    el("div", { class: "soft", textContent: plural(moment.centres.sizes[cluster], "training example") }),
    el("div", { class: "grid" }, near.map((id) => look(data, id, 56))));
}

function fillTooltip(event, ...content) {
  const box = byId("tooltip");
  box.replaceChildren(...content);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = event.clientX + 16 + width > innerWidth ? event.clientX - width - 12 : event.clientX + 16;
  const top = Math.min(event.clientY + 14, innerHeight - height - 6);
  Object.assign(box.style, { left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px` });
}

function hideTooltip() {
  byId("tooltip").hidden = true;
}
