// CSV that a spreadsheet reads as text: quoted where needed, and never as a formula.

function csvCell(value) {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csv(rows) {
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
  globalThis.magnet.exported = text;
}
