// The controls at the top, the theme, and the keys that work everywhere.

function startControls(data) {
  const colour = options(byId("colour"), colourings(data), state.way);
  colour.addEventListener("change", () => change({ way: colour.value }, "look"));
  for (const layer of ["names", "regions", "centres"]) {
    byId(layer).addEventListener("change", (event) => change({ [layer]: event.target.checked }, "layers"));
  }
  byId("theme").addEventListener("click", otherTheme);
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input[type=search], select") || byId("viewer").open;
    if (event.key === "Escape" && !typing) select(null, state.tab);
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); if (narrow()) setSheet("closed"); byId("search").focus(); }
    if (event.key === "d") otherTheme();
    if (event.key === "[" || event.key === "]") {
      const time = state.time + (event.key === "]" ? 1 : -1);
      if (time >= 0 && time < timeline.steps.length) change({ time }, "time");
    }
  });
}

function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "☀" : "☾";
}

function otherTheme() {
  setTheme(state.theme === "dark" ? "light" : "dark");
  change({}, "look", "tab");
}
