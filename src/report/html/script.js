"use strict";
// Draws the report from the data embedded in the page. Text only ever enters the page as text nodes, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const rewritten = data.rewrites.length > 0;
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
function draw(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return (unit === 0 ? bytes : bytes.toFixed(2)) + " " + units[unit];
}
const percent = (part, whole) => (whole > 0 ? (100 * part / whole).toFixed(1) + "%" : "-");

const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.style.display = "block";
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8)) + "px";
}
const hideTip = () => { tip.style.display = "none"; };

function figures(estimate) {
  const ratio = estimate.floor > 0 ? (estimate.total_bytes / estimate.floor).toFixed(3) : "-";
  const rows = [["total", size(estimate.total_bytes)], ["floor", size(estimate.floor)], ["total / floor", ratio],
    ["arguments", size(estimate.arguments)], ["outputs", size(estimate.outputs)], ["temporaries", size(estimate.temporaries)]];
  return make("div", { class: "figures" }, ...rows.map(([name, value]) =>
    make("div", {}, make("span", { class: "soft" }, name), make("b", {}, value))));
}

// Memory over program order. `span` is the visible part of the schedule; the wheel zooms, dragging moves, a double click shows everything.
function chart(estimate, top) {
  const W = rewritten ? 560 : 900, H = 260, L = 78, R = 10, T = 12, B = 26;
  const points = estimate.details.timeline, steps = Math.max(estimate.details.steps, 1);
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, class: "chart", tabindex: 0, role: "img", "aria-label": "memory over program order" });
  let from = 0, to = steps;
  const x = (step) => L + (step - from) / (to - from) * (W - L - R);
  const y = (bytes) => H - B - bytes / (top || 1) * (H - T - B);
  function paint() {
    svg.replaceChildren();
    const clip = "clip" + Math.random().toString(36).slice(2);
    const defs = draw("defs", {}), box = draw("clipPath", { id: clip });
    box.append(draw("rect", { x: L, y: 0, width: W - L - R, height: H - B + 1 }));
    defs.append(box);
    svg.append(defs);
    for (let k = 0; k <= 4; k += 1) {
      const bytes = top * k / 4;
      svg.append(draw("line", { class: "grid", x1: L, x2: W - R, y1: y(bytes), y2: y(bytes) }));
      svg.append(draw("text", { x: L - 6, y: y(bytes) + 4, "text-anchor": "end" }, size(bytes)));
    }
    for (let k = 0; k <= 4; k += 1) {
      const step = Math.round(from + (to - from) * k / 4);
      const anchor = k === 0 ? "start" : k === 4 ? "end" : "middle";
      svg.append(draw("text", { x: x(step), y: H - 8, "text-anchor": anchor }, "step " + step));
    }
    let path = "";
    points.forEach((point, k) => {
      const next = k + 1 < points.length ? points[k + 1].step : steps;
      path += (k === 0 ? `M${x(point.step)},${y(0)}` : "") + `L${x(point.step)},${y(point.bytes)}L${x(next)},${y(point.bytes)}`;
      if (k + 1 === points.length) path += `L${x(next)},${y(0)}Z`;
    });
    const inside = draw("g", { "clip-path": `url(#${clip})` });
    inside.append(draw("path", { class: "area", d: path }));
    inside.append(draw("line", { class: "floor", x1: L, x2: W - R, y1: y(estimate.floor), y2: y(estimate.floor) }));
    inside.append(draw("text", { class: "floor-text", x: L + 4, y: y(estimate.floor) - 4 }, "floor"));
    inside.append(draw("circle", { class: "peak", r: 4, cx: x(estimate.details.peak_step + 0.5), cy: y(estimate.peak.bytes) }));
    svg.append(inside);
  }
  const stepAt = (event) => {
    const box = svg.getBoundingClientRect();
    return from + ((event.clientX - box.left) / box.width * W - L) / (W - L - R) * (to - from);
  };
  function view(a, b) {
    const width = Math.min(Math.max(b - a, Math.min(4, steps)), steps);
    from = Math.min(Math.max(a, 0), steps - width);
    to = from + width;
    paint();
  }
  function zoom(factor, at) { view(at - (at - from) * factor, at + (to - at) * factor); }
  svg.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, stepAt(event)); }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", (event) => { held = stepAt(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointerup", () => { held = null; });
  svg.addEventListener("dblclick", () => view(0, steps));
  svg.addEventListener("pointermove", (event) => {
    if (held !== null) { const moved = held - stepAt(event); view(from + moved, to + moved); return; }
    const step = stepAt(event);
    let low = 0, high = points.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (points[middle].step <= step) low = middle; else high = middle - 1; }
    const point = points[low];
    if (!point || step < from || step > to) { hideTip(); return; }
    const lines = [`step ${point.step}: ${size(point.bytes)}`, `${point.instruction} of ${point.computation}`];
    if (point.source) lines.push(point.source);
    showTip(event, lines.join("\n"));
  });
  svg.addEventListener("pointerleave", hideTip);
  svg.addEventListener("keydown", (event) => {
    const middle = (from + to) / 2, quarter = (to - from) / 4;
    const act = { "+": () => zoom(0.8, middle), "-": () => zoom(1.25, middle), 0: () => view(0, steps),
      ArrowLeft: () => view(from - quarter, to - quarter), ArrowRight: () => view(from + quarter, to + quarter) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  const button = (text, label, act) => { const node = make("button", { type: "button", "aria-label": label }, text); node.addEventListener("click", act); return node; };
  const buttons = make("span", { class: "zoom" }, button("+", "zoom in", () => zoom(0.5, (from + to) / 2)), " ",
    button("\u2212", "zoom out", () => zoom(2, (from + to) / 2)), " ", button("all", "show everything", () => view(0, steps)));
  paint();
  return [buttons, svg];
}

// Rectangles whose areas are the sums, as square as they can be.
function squarify(items, x, y, w, h) {
  const placed = [], scale = w * h / items.reduce((sum, item) => sum + item.bytes, 0);
  let rest = items.slice();
  const worst = (row, side) => {
    const sum = row.reduce((total, item) => total + item.bytes * scale, 0);
    return Math.max(...row.map((item) => Math.max(side * side * item.bytes * scale / (sum * sum), sum * sum / (side * side * item.bytes * scale))));
  };
  while (rest.length > 0) {
    const side = Math.min(w, h), row = [rest.shift()];
    while (rest.length > 0 && worst(row.concat(rest[0]), side) <= worst(row, side)) row.push(rest.shift());
    const sum = row.reduce((total, item) => total + item.bytes * scale, 0), thick = sum / side;
    let along = 0;
    for (const item of row) {
      const long = item.bytes * scale / thick;
      placed.push(w >= h ? { item, x, y: y + along, w: thick, h: long } : { item, x: x + along, y, w: long, h: thick });
      along += long;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
  }
  return placed;
}
function treemap(estimate) {
  const W = rewritten ? 560 : 900, H = 300, peak = estimate.peak.bytes;
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, class: "treemap", role: "img", "aria-label": "peak by source line" });
  const groups = estimate.details.by_source.filter((group) => group.bytes > peak * 1e-4).slice(0, 200);
  if (groups.length === 0) return svg;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  squarify(groups, 0, 0, W, H).forEach(({ item, x, y, w, h }, k) => {
    const hue = (210 + k * 47) % 360;
    const fill = item.key.startsWith("(") ? (dark ? "#3a424c" : "#d5dae0") : `hsl(${hue} ${dark ? "42% 30%" : "62% 80%"})`;
    const tile = draw("rect", { class: "tile", x, y, width: w, height: h, fill, rx: 3 });
    const buffers = item.count === 1 ? item.largest : `${item.count} buffers, ${item.largest} the largest`;
    tile.addEventListener("pointermove", (event) => showTip(event, `${item.key}\n${size(item.bytes)}, ${percent(item.bytes, peak)} of the peak\n${buffers}`));
    tile.addEventListener("pointerleave", hideTip);
    svg.append(tile);
    const room = Math.floor((w - 10) / 6.8);
    if (h > 22 && room > 4) {
      const short = item.key.length > room ? "\u2026" + item.key.slice(item.key.length - room + 1) : item.key;
      svg.append(draw("text", { class: "tile-text", x: x + 6, y: y + 16 }, short));
      if (h > 38) svg.append(draw("text", { class: "tile-text", x: x + 6, y: y + 32 }, `${size(item.bytes)}`));
    }
  });
  return svg;
}

// Memory against time, both beside zero: each point is a form of the program.
function tradeoff(points) {
  const W = 900, H = 280, L = 78, R = 24, T = 16, B = 30;
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "memory against time" });
  const most = Math.max(...points.map((point) => point.total_bytes)), slowest = Math.max(...points.map((point) => point.seconds)) || 1;
  const x = (seconds) => L + seconds / slowest * (W - L - R), y = (bytes) => H - B - bytes / most * (H - T - B);
  for (let k = 0; k <= 4; k += 1) {
    svg.append(draw("line", { class: "grid", x1: L, x2: W - R, y1: y(most * k / 4), y2: y(most * k / 4) }));
    svg.append(draw("text", { x: L - 6, y: y(most * k / 4) + 4, "text-anchor": "end" }, size(most * k / 4)));
    svg.append(draw("text", { x: x(slowest * k / 4), y: H - 10, "text-anchor": "middle" }, `${(slowest * k / 4 * 1e3).toPrecision(3)} ms`));
  }
  svg.append(draw("line", { class: "floor", x1: L, x2: W - R, y1: y(data.before.floor), y2: y(data.before.floor) }));
  svg.append(draw("path", { class: "line", d: points.map((point, k) => `${k ? "L" : "M"}${x(point.seconds)},${y(point.total_bytes)}`).join("") }));
  for (const point of points) {
    const dot = draw("circle", { class: "peak", r: 5, cx: x(point.seconds), cy: y(point.total_bytes) });
    const times = (point.seconds / points[0].seconds).toFixed(2);
    dot.addEventListener("pointermove", (event) => showTip(event, `${size(point.total_bytes)} at ${times} times the time\n${point.step}${point.grade ? `\n${point.grade}` : ""}`));
    dot.addEventListener("pointerleave", hideTip);
    svg.append(dot);
  }
  return svg;
}

function why(holder) {
  const parts = [holder.argument === undefined ? holder.role : `${holder.role} ${holder.argument}`];
  if (holder.carried_by) parts.push("carried by loop " + holder.carried_by);
  else if (holder.aliased_with) parts.push("becomes " + holder.aliased_with);
  if (holder.next_user) parts.push("next read by " + holder.next_user);
  return parts.join("; ");
}
function table(columns, rows) {
  const body = make("tbody"), head = make("tr");
  let sorted = 0, down = true;
  const fill = () => {
    const key = columns[sorted].key;
    const sign = down ? -1 : 1;
    const order = rows.slice().sort((a, b) => { const [p, q] = [key(a), key(b)]; return p < q ? -sign : p > q ? sign : 0; });
    body.replaceChildren(...order.map((row) => {
      const line = make("tr", {}, ...columns.map((column) =>
        make("td", { class: column.number ? "number" : "text" }, column.show ? column.show(row) : String(column.key(row)))));
      if (row.stack && row.stack.length) {
        line.addEventListener("pointermove", (event) => showTip(event, row.stack.join("\n")));
        line.addEventListener("pointerleave", hideTip);
      }
      return line;
    }));
    [...head.children].forEach((cell, k) => cell.setAttribute("aria-sort", k === sorted ? (down ? "descending" : "ascending") : "none"));
  };
  columns.forEach((column, k) => {
    const button = make("button", { type: "button" }, column.name);
    button.addEventListener("click", () => { down = k === sorted ? !down : Boolean(column.number); sorted = k; fill(); });
    head.append(make("th", { class: column.number ? "number" : "", scope: "col" }, button));
  });
  fill();
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body));
}
function holders(estimate) {
  const peak = estimate.peak.bytes;
  const columns = [
    { name: "bytes", number: true, key: (row) => row.bytes, show: (row) => size(row.bytes) },
    { name: "share", number: true, key: (row) => row.bytes, show: (row) => percent(row.bytes, peak) },
    { name: "source", key: (row) => row.source || "" },
    { name: "instruction", key: (row) => row.instruction },
    { name: "shape", key: (row) => row.shape, show: (row) => make("code", {}, row.shape) },
    { name: "why it is alive", key: why },
    { name: "operation", key: (row) => row.op_name || "" },
    { name: "padding", number: true, key: (row) => row.padding, show: (row) => (row.padding ? size(row.padding) : "") },
    { name: "steps", number: true, key: (row) => row.first_step, show: (row) => `${row.first_step}\u2013${row.last_step}` },
  ];
  const rest = estimate.details.unlisted;
  const note = rest.count > 0 ? make("p", { class: "soft" }, `and ${rest.count} smaller buffers, ${size(rest.bytes)} together`) : null;
  return make("div", {}, table(columns, estimate.details.holders), note);
}
function gap(estimate) {
  const whole = estimate.total_bytes - estimate.floor, parts = estimate.details.gap;
  const rows = parts.temporaries.map((group) => ({ bytes: group.bytes, what: "temporaries of " + group.key }));
  rows.push({ bytes: parts.idle, what: "temporaries' memory not in use at the peak" }, { bytes: parts.constants, what: "constants" },
    { bytes: parts.thread_local, what: "scratch of reducers and comparators" });
  const columns = [{ name: "bytes", number: true, key: (row) => row.bytes, show: (row) => size(row.bytes) },
    { name: "share", number: true, key: (row) => row.bytes, show: (row) => percent(row.bytes, whole) }, { name: "part", key: (row) => row.what }];
  return [make("h3", {}, `gap above the floor: ${size(whole)}`), table(columns, rows.filter((row) => row.bytes > 0))];
}
const list = (items) => make("ul", {}, ...items.map((item) => make("li", {}, item)));

function sides(content) {
  const before = make("div", { class: "panel" }, rewritten ? make("h3", {}, "before") : null, ...content(data.before));
  return make("div", { class: "sides" }, before,
    rewritten ? make("div", { class: "panel" }, make("h3", {}, "after"), ...content(data.after)) : null);
}
function section(title, ...content) { document.body.append(make("section", {}, make("h2", {}, title), ...content)); }

const highest = Math.max(data.before.peak.bytes, data.after.peak.bytes, data.before.floor, data.after.floor);
document.body.append(make("h1", {}, data.module),
  make("div", { class: "soft" }, `target ${data.target}, model: ${data.before.model}, ${data.tool}`));
section("Memory", sides((estimate) => [figures(estimate)]));
section("Memory over program order", sides((estimate) => chart(estimate, highest)),
  make("p", { class: "soft" }, "The wheel zooms, dragging moves, a double click shows everything; with the keyboard: + \u2212 0 and the arrows."));
section("Peak by source line", sides((estimate) => [treemap(estimate)]));
section("Buffers alive at the peak", sides((estimate) => [
  make("h3", {}, `${size(estimate.peak.bytes)} while ${estimate.peak.instruction} of ${estimate.peak.computation} runs`), holders(estimate)]));
section("Above the floor", sides(gap));
if (data.before.xla_total_bytes !== undefined) section("XLA's own report", make("p", {}, `${size(data.before.xla_total_bytes)}, ours minus XLA's: ${data.before.total_bytes - data.before.xla_total_bytes} B`));
if (data.before.details.hidden_scratch.length) section("Inside library fusions", make("p", { class: "soft" }, "Estimated scratch while the fusion runs; the total leaves it out."),
  list(data.before.details.hidden_scratch.map((item) => `${size(item.bytes)} in ${item.instruction} of ${item.computation}${item.source ? " at " + item.source : ""}`)));
if (data.before.details.what_if.length) section("What if", list(data.before.details.what_if.map((item) => `${size(item.saved_bytes)} less: ${item.note}`)));
const gain = (item) => item.kind === "speed"
  ? (item.taken_bytes ? `takes ${size(item.taken_bytes)} for speed` : `for speed, ${item.saved_bytes ? "saves " + size(item.saved_bytes) : "takes nothing"}`)
  : (item.taken_bytes ? `takes ${size(item.taken_bytes)}` : `saves ${size(item.saved_bytes)}`);
if (rewritten) section("Rewrites", list(data.rewrites.map((item) => `${item.pass} ${item.instruction}${item.source ? " at " + item.source : ""}: ${gain(item)}, ${item.grade}: ${item.note}`)));
if (data.curve) section("Memory against time", make("div", { class: "panel" }, tradeoff(data.curve)), table([
  { name: "peak", number: true, key: (row) => row.total_bytes, show: (row) => size(row.total_bytes) },
  { name: "time", number: true, key: (row) => row.seconds, show: (row) => (row.seconds / data.curve[0].seconds).toFixed(2) },
  { name: "what was done last", key: (row) => row.step }, { name: "grade", key: (row) => row.grade || "" }], data.curve));
if (data.remarks.length) section("Remarks", list(data.remarks.map((item) => `${item.kind}: ${item.pass} ${item.instruction}, ${size(item.bytes)}: ${item.message} [${item.code}]`)));
if (data.before.caveats.length) section("What the model does not know", list(data.before.caveats));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
