// In a narrow window the details are a sheet from below: closed to its tabs, half open, or open.

const SHEET = ["closed", "half", "full"];
const narrow = () => matchMedia("(max-width: 900px)").matches;

function setSheet(how) {
  const sheet = byId("sheet");
  sheet.classList.remove(...SHEET);
  sheet.classList.add(how);
  const grip = byId("grip");
  grip.setAttribute("aria-expanded", String(how !== "closed"));
  grip.setAttribute("aria-label", how === "full" ? "Close the details" : "Open the details");
}

// Something was asked for: it is shown where it can be seen, and the map stays in view above it.
function openSheet() {
  if (narrow() && byId("sheet").classList.contains("closed")) setSheet("half");
}

function startSheet() {
  setSheet("half"); // on the summary
  const grip = byId("grip");
  let down = null;
  grip.addEventListener("pointerdown", (event) => { down = event.clientY; grip.setPointerCapture(event.pointerId); });
  grip.addEventListener("pointerup", (event) => {
    const moved = down === null ? 0 : event.clientY - down;
    down = null;
    const at = SHEET.findIndex((how) => byId("sheet").classList.contains(how));
    if (Math.abs(moved) > 24) setSheet(SHEET[Math.min(2, Math.max(0, at + (moved < 0 ? 1 : -1)))]);
  });
  grip.addEventListener("click", () => {
    const at = SHEET.findIndex((how) => byId("sheet").classList.contains(how));
    setSheet(SHEET[(at + 1) % 3]);
  });
}

// In a narrow window one map is shown at a time.
function startFronts(data) {
  const bring = (number) => {
    maps.forEach((view, i) => view.box.classList.toggle("front", i === number));
    byId("fronts").querySelectorAll("button").forEach((button, i) => button.setAttribute("aria-pressed", String(i === number)));
  };
  if (data.runs.length > 1) {
    byId("fronts").append(...data.runs.map((run) => el("button", {
      type: "button", class: "plain", textContent: run.name, onclick: () => bring(run.number),
    })));
  }
  bring(0);
}
