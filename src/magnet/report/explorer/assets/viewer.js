// One picture, as large as there is room for, with its path and the way to the original.

function openViewer(data, id) {
  const box = byId("viewer");
  const side = Math.min(560, innerWidth - 60, innerHeight - 200);
  const original = data.originals && data.originals + data.names[id].split(/[\\/]/).map(encodeURIComponent).join("/");
  box.replaceChildren(
    look(data, id, Math.round(side / lookRatio(data.pictures))),
    el("p", {}, el("b", { class: "name", text: data.classes[data.labels[id]] })),
    el("p", { class: "soft name", text: data.titles[id] }),
    el("div", { class: "tools" },
      original ? el("a", { href: original, target: "_blank", rel: "noreferrer", class: "original", textContent: "Open the original" }) : null,
      el("button", { type: "button", class: "plain", textContent: "Close", onclick: () => box.close() })));
  box.onclick = (event) => { if (event.target === box) box.close(); };
  box.showModal();
}
