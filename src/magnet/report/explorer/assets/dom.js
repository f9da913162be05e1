// Elements. Names of classes and files are untrusted: text is only ever set as text.

function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") node.className = value;
    else if (key === "text") node.append(...breakable(value));
    else if (key === "style") Object.assign(node.style, value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key.startsWith("aria-") || key === "role") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// A name that is rather broken at its separators than anywhere.
function breakable(name) {
  return name.split(/(?<=[_/\\])|(?=\.\w{1,4}$)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
}

const byId = (id) => document.getElementById(id);

function dot(colour) {
  return el("i", { class: "dot", style: { background: colour } });
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => el("option", { value, textContent: text })));
  select.value = chosen;
  return select;
}
