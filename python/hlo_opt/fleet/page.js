"use strict";
// Draws the tables from the data embedded in the page. Text only ever enters the page as text nodes, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return (unit === 0 ? bytes : bytes.toFixed(2)) + " " + units[unit];
}
const sized = (key) => ({ value: (row) => row[key], show: (row) => size(row[key]), kind: "number" });
const plain = (key) => ({ value: (row) => row[key], show: (row) => row[key] ?? "", kind: "text" });
const counted = (key) => ({ value: (row) => row[key], show: (row) => row[key] ?? "", kind: "number" });

// A table that a click on a heading sorts: numbers from the largest, text from the first; rows without a value stand last.
function table(id, columns, rows, match) {
  let by = null, down = true;
  const body = make("tbody"), input = make("input", { type: "search", placeholder: "filter", "aria-label": "filter" });
  const heads = Object.keys(columns).map((name) => {
    const button = make("button", { type: "button" }, name);
    const head = make("th", { class: columns[name].kind, scope: "col" }, button);
    button.addEventListener("click", () => { down = by === name ? !down : columns[name].kind === "number"; by = name; paint(); });
    return head;
  });
  function paint() {
    const wanted = input.value.toLowerCase();
    const shown = rows.filter((row) => match(row).toLowerCase().includes(wanted));
    if (by !== null) {
      const value = columns[by].value, none = (x) => x === null || x === undefined;
      shown.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (none(x) || none(y)) return none(x) - none(y);
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
    }
    heads.forEach((head, at) => head.setAttribute("aria-sort", Object.keys(columns)[at] !== by ? "none" : down ? "descending" : "ascending"));
    body.replaceChildren(...shown.map((row) => make("tr", {}, ...Object.values(columns).map((column) => make("td", { class: column.kind }, column.show(row))))));
  }
  input.addEventListener("input", paint);
  paint();
  return make("div", { class: "panel", id }, input, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
}

function linked(row) {
  return row.status === "error" ? row.name : make("a", { href: `reports/${row.key}.html` }, row.name);
}
function bar(row) {
  if (!row.peak_bytes) return "";
  const part = (bytes) => Math.max(0, Math.min(100, 100 * bytes / row.peak_bytes));
  const floor = Math.min(part(row.floor_bytes), part(row.reachable_bytes));
  const title = `floor ${size(row.floor_bytes)}, reachable ${size(row.reachable_bytes)}, peak ${size(row.peak_bytes)}`;
  return make("div", { class: "bar", title }, make("span", { class: "floor", style: `width:${floor}%` }),
    make("span", { class: "reachable", style: `width:${part(row.reachable_bytes) - floor}%` }));
}

const broken = data.dumps.filter((row) => row.status === "error").length;
const over = data.dumps.filter((row) => row.status === "over budget").length;
const savable = (row) => row.peak_bytes === null ? null : row.peak_bytes - row.reachable_bytes;
document.body.append(
  make("h1", {}, "Memory of a fleet"),
  make("p", { class: "soft" }, `${data.dumps.length} dumps, ${broken} broken${over ? `, ${over} over the budget` : ""}. ${data.tool}${data.settings.length ? " " + data.settings.join(" ") : ""}`));

if (data.changes) {
  const worse = data.changes.filter((change) => change.is_regression).length;
  const verdict = { value: (row) => (row.is_regression ? "regression" : ""), show: (row) => (row.is_regression ? make("span", { class: "bad" }, "regression") : ""), kind: "text" };
  const percent = (row) => (row.old ? 100 * (row.new - row.old) / row.old : null);
  document.body.append(make("h2", {}, `Since the baseline: ${worse} regressions`), table("changes", {
    dump: plain("label"), change: plain("kind"), figure: { value: (row) => row.figure, show: (row) => (row.figure || "").replace("_bytes", ""), kind: "text" },
    before: sized("old"), now: sized("new"),
    "%": { value: percent, show: (row) => (percent(row) === null ? "" : percent(row).toFixed(2)), kind: "number" }, verdict,
  }, data.changes, (row) => row.label));
}
const largestFirst = [...data.dumps].sort((a, b) => (b.peak_bytes ?? -1) - (a.peak_bytes ?? -1));
document.body.append(make("h2", {}, "Dumps"), make("p", { class: "soft" }, "Of each peak: what arguments and results take (green), and what the best form found takes beside (blue)."), table("dumps", {
  dump: { value: (row) => row.name, show: linked, kind: "text" },
  peak: sized("peak_bytes"), reachable: sized("reachable_bytes"), floor: sized("floor_bytes"),
  "can fall by": { value: savable, show: (row) => size(savable(row)), kind: "number" },
  "of the peak": { value: (row) => row.peak_bytes === null ? null : row.reachable_bytes / row.peak_bytes, show: bar, kind: "text" },
  rewrites: counted("rewrites"), grade: plain("grade"), "owner line": plain("owner"), holds: sized("owner_bytes"),
  target: plain("target"),
  state: { value: (row) => row.status, show: (row) => (row.status === "ok" ? "" : make("span", { class: "bad" }, row.error || row.status)), kind: "text" },
}, largestFirst, (row) => `${row.name} ${row.owner || ""} ${row.error || ""}`));
document.body.append(make("h2", {}, "Source lines"), table("owners", {
  line: plain("line"), "holds at the peaks": sized("bytes"), dumps: counted("dumps"), most: sized("most_bytes"), "most in": plain("most_in"), "rewrites save": sized("saved_bytes"),
}, data.owners, (row) => row.line));
