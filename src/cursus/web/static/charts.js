"use strict";
// Drawings: curves by uPlot, the rest by hand. Texts reach the page as text alone, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8;

function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((each) => each != null));
  return made;
}

function shape(name, attributes = {}, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text != null) made.textContent = text;
  return made;
}

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (index) => ink(`--c${index % COLOURS}`);
const percent = (value, digits = 0) => (value == null ? "–" : `${(100 * value).toFixed(digits)} %`);
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });
const whole = (value) => (value == null ? "–" : Math.abs(value) < 1e15 ? Math.round(value).toLocaleString("en") : compact.format(value));
const number = (value) => (value == null ? "–" : Number.isInteger(value) ? whole(value) : Math.abs(value) < 1e-4 || Math.abs(value) >= 1e15 ? value.toExponential(2) : value.toLocaleString("en", { maximumSignificantDigits: 4 }));
const onAxis = (value) => (Math.abs(value) < 1000 ? Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 }) : compact.format(value));
const short = (text, most = 22) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function titled(node, text) {
  node.append(shape("title", {}, text));
  return node;
}

// ---- curves

// A chart that is made anew only when its curves are others; `series` is [{name, y, colour, low, high}].
class Curves {
  constructor(label, along, { share = false, height = 220 } = {}) {
    this.node = el("div", { class: "chart", role: "img" });
    this.label = label;
    this.along = along;
    this.share = share;
    this.height = height;
    this.key = "";
    this.plot = null;
    new ResizeObserver(() => this.plot && this.plot.setSize({ width: this.node.clientWidth || 400, height })).observe(this.node);
  }

  draw(x, series) {
    const banded = series.every((each) => each.low);
    const data = [x, ...series.flatMap((each) => (banded ? [each.y, each.high, each.low] : [each.y]))];
    const newest = series.map((each) => `${short(each.name)} ${this.say(each.y.findLast((value) => value != null))}`);
    this.node.setAttribute("aria-label", `${this.label} by ${this.along}, last: ${newest.join(", ")}`);
    const key = JSON.stringify([series.map((each) => [each.name, each.colour]), banded, ink("--ink")]);
    if (key === this.key) {
      this.plot.setData(data);
      return;
    }
    this.key = key;
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot(this.options(series, banded), data, this.node);
  }

  say(value) { return this.share ? percent(value, 1) : number(value); }

  options(series, banded) {
    const axis = { stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line") } };
    const edge = { stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
    const lines = [{ label: this.along, value: (_, v) => whole(v) }], bands = [];
    series.forEach((each, index) => {
      const stroke = colour(each.colour ?? index);
      lines.push({ label: short(each.name), stroke, width: 2, value: (_, v) => this.say(v), spanGaps: true, points: { show: series.length < 3 ? undefined : false } });
      if (!banded) return;
      lines.push(edge, edge);
      bands.push({ series: [lines.length - 2, lines.length - 1], fill: `${stroke}${series.length > 4 ? "18" : "2b"}` });
    });
    return {
      width: this.node.clientWidth || 400,
      height: this.height,
      series: lines,
      bands,
      scales: { x: { time: false }, y: this.share ? { range: [0, 1] } : {} },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map(onAxis) },
        { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => (this.share ? percent(tick) : onAxis(tick))) },
      ],
      cursor: { points: { size: 6 } },
      hooks: { init: [(plot) => plot.root.querySelectorAll(".u-series").forEach((row, index) => { row.hidden = lines[index] === edge; })] },
    };
  }
}

// ---- the gate meter: the rate with its interval, and the threshold that it must reach

function gateMeter({ success, low, high, threshold }) {
  const width = window.innerWidth < 600 ? 340 : 640, long = width - 20;
  const drawn = shape("svg", { viewBox: `0 0 ${width} 66`, role: "img", class: "meter" });
  const x = (value) => 10 + long * Math.min(Math.max(value, 0), 1), anchor = (value) => (value > 0.85 ? "end" : value < 0.15 ? "start" : "middle");
  const said = `success ${percent(success)}, between ${percent(low)} and ${percent(high)}; the threshold is ${percent(threshold)}`;
  drawn.setAttribute("aria-label", said);
  titled(drawn, said);
  drawn.append(shape("rect", { x: 10, y: 22, width: long, height: 16, rx: 8, class: "zero" }));
  if (low != null && high != null) drawn.append(shape("rect", { x: x(low), y: 22, width: Math.max(x(high) - x(low), 2), height: 16, rx: 3, class: "band" }));
  drawn.append(shape("line", { x1: x(threshold), x2: x(threshold), y1: 16, y2: 46, class: "bar" }));
  drawn.append(shape("text", { x: x(threshold), y: 61, "text-anchor": anchor(threshold), class: "soft" }, `threshold ${percent(threshold)}`));
  if (success == null) return drawn;
  drawn.append(shape("circle", { cx: x(success), cy: 30, r: 8, class: "f0" }));
  const range = low == null ? "" : ` (${Math.round(100 * low)}–${Math.round(100 * high)})`;
  drawn.append(shape("text", { x: x(success), y: 14, "text-anchor": anchor(success) }, `${percent(success)}${range}`));
  return drawn;
}

// ---- which stage was the present one, and what was decided

const LOUD = new Set(["promotion", "demotion", "graduation", "completion", "forgetting", "rehearsal", "phase", "stage", "settings"]);

function stageRibbon(stays, names, decisions, end, room) {
  const order = names.length ? names : [...new Set(stays.map((each) => each.name))];
  const longest = Math.max(...order.map((name) => short(name).length));
  const height = 22, top = 8, left = 20 + 7 * longest, width = Math.max(room, left + 300) - left - 10, last = Math.max(end, 1);
  const size = { width: left + width + 10, height: top + height * order.length + 24 };
  const drawn = shape("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "img", class: "ribbon" });
  titled(drawn, "stages over the run");
  const x = (ticket) => left + (width * ticket) / last;
  order.forEach((name, index) => {
    const y = top + height * index;
    drawn.append(shape("line", { x1: left, x2: left + width, y1: y + height / 2, y2: y + height / 2, class: "axis" }));
    drawn.append(shape("text", { x: left - 8, y: y + height / 2 + 4, "text-anchor": "end" }, short(name)));
  });
  stays.forEach((stay, index) => {
    const row = order.indexOf(stay.name), until = index + 1 < stays.length ? stays[index + 1].from : last;
    if (row < 0) return;
    const part = shape("rect", { x: x(stay.from), y: top + height * row + 4, width: Math.max(x(until) - x(stay.from), 1.5), height: height - 8, rx: 3, class: `f${row % COLOURS}` });
    drawn.append(titled(part, `${stay.name}: tickets ${whole(stay.from)} to ${whole(until)}`));
  });
  for (const each of decisions) {
    if (!LOUD.has(each.kind)) continue;
    const at = x(Math.min(each.ticket, last)), low = top + height * order.length;
    drawn.append(titled(shape("path", { d: `M${at} ${low}l4 8h-8z`, class: "sign" }), `${each.kind}, ticket ${whole(each.ticket)}: ${each.text}`));
  }
  drawn.append(shape("text", { x: left, y: top + height * order.length + 21, class: "soft" }, "0"));
  drawn.append(shape("text", { x: left + width, y: top + height * order.length + 21, "text-anchor": "end", class: "soft" }, `ticket ${whole(last)}`));
  return drawn;
}

// ---- tasks

function heatMap(map, what) {
  const [columns, rows] = map.ticks, left = 12 + 7 * Math.max(...rows.map((row) => short(row, 9).length), 3);
  const cell = Math.min(52, 480 / columns.length), tall = Math.min(30, 420 / rows.length), top = 20;
  const size = { width: left + Math.max(cell * columns.length, 120) + 10, height: top + tall * rows.length + 38 };
  const drawn = shape("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "img", class: "map" });
  titled(drawn, `${what} over ${map.names[0]} and ${map.names[1]}`);
  const values = map[what], most = what === "success" ? 1 : Math.max(...values.flat().map((each) => each || 0), 1e-9);
  columns.forEach((column, i) => rows.forEach((row, j) => {
    const value = values[i][j], seen = value != null && (what === "success" || value > 0);
    const box = shape("rect", { x: left + cell * i, y: top + tall * (rows.length - 1 - j), width: cell - 1.5, height: tall - 1.5, class: seen ? "f0" : "zero" });
    if (seen) box.setAttribute("fill-opacity", 0.12 + 0.88 * (value / most));
    drawn.append(titled(box, `${map.names[0]} ${column}, ${map.names[1]} ${row}: ${seen ? percent(value, 1) : "not practised"}`));
  }));
  const step = Math.ceil(columns.length / 8);
  columns.forEach((column, i) => i % step || drawn.append(shape("text", { x: left + cell * (i + 0.5), y: top + tall * rows.length + 14, "text-anchor": "middle" }, short(column, 9))));
  const skip = Math.ceil(rows.length / 14);
  rows.forEach((row, j) => j % skip || drawn.append(shape("text", { x: left - 6, y: top + tall * (rows.length - 0.5 - j) + 4, "text-anchor": "end" }, short(row, 9))));
  drawn.append(shape("text", { x: left, y: top + tall * rows.length + 32, class: "soft" }, `→ ${short(map.names[0], 40)}`));
  drawn.append(shape("text", { x: left, y: 12, class: "soft" }, `↑ ${short(map.names[1], 40)}`));
  return drawn;
}

// Every task is a point: how far its success has risen lately, and what share of the episodes it has.
// The pointer names the nearest one; the arrow keys go through them, the most practised first.
class TaskPoints {
  constructor() {
    this.node = el("canvas", { class: "tasks", role: "img", tabindex: "0", "aria-label": "share and progress of every task; arrow keys name one after the other" });
    const dot = (index) => el("span", { class: `dot b${index}` }, "● ");
    this.legend = el("p", { class: "soft" }, dot(2), "success above 90 %, ", dot(0), "between, ", dot(1), "below 10 %");
    this.told = el("p", { class: "told soft", "aria-live": "polite" });
    this.tasks = { name: [] };
    this.chosen = null;
    this.node.addEventListener("pointermove", (event) => this.choose(this.nearest(event)));
    this.node.addEventListener("keydown", (event) => this.step(event));
    new ResizeObserver(() => this.draw(this.tasks)).observe(this.node);
  }

  draw(tasks) {
    const known = this.chosen == null ? null : this.tasks.name[this.chosen];
    this.chosen = known == null ? null : tasks.name[this.chosen] === known ? this.chosen : [tasks.name.indexOf(known)].find((each) => each >= 0) ?? null;
    this.tasks = tasks;
    if (!tasks.name.length) return;
    const ratio = window.devicePixelRatio || 1, width = this.node.clientWidth || 400, height = 260;
    this.node.width = width * ratio;
    this.node.height = height * ratio;
    const pen = this.node.getContext("2d"), middle = 40 + (width - 60) / 2;
    pen.scale(ratio, ratio);
    const far = tasks.progress.reduce((most, each) => Math.max(most, Math.abs(each || 0)), 0.05);
    const most = tasks.share.reduce((a, b) => Math.max(a, b), 1e-9);
    this.places = tasks.share.map((share, index) => [40 + (width - 60) * (0.5 + (tasks.progress[index] || 0) / (2 * far)), height - 28 - (height - 50) * (share / most)]);
    pen.strokeStyle = ink("--line");
    pen.beginPath();
    pen.moveTo(middle, 22);
    pen.lineTo(middle, height - 28);
    pen.moveTo(40, height - 28);
    pen.lineTo(width - 20, height - 28);
    pen.stroke();
    const [low, between, high, unknown] = [colour(1), colour(0), colour(2), ink("--soft")], size = this.places.length > 500 ? 3 : 5;
    pen.globalAlpha = 0.75;
    this.places.forEach(([x, y], index) => {
      const success = tasks.success[index];
      pen.fillStyle = success == null ? unknown : success > 0.9 ? high : success < 0.1 ? low : between;
      pen.beginPath();
      pen.arc(x, y, size, 0, 7);
      pen.fill();
    });
    pen.globalAlpha = 1;
    this.label(pen, width, height, far, most);
    if (this.chosen != null) this.choose(this.chosen, pen);
  }

  label(pen, width, height, far, most) {
    pen.fillStyle = ink("--soft");
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "left";
    pen.fillText(`← falls by ${percent(far)}`, 40, height - 10);
    pen.fillText(`↑ share, up to ${percent(most, 1)}`, 40, 14);
    pen.textAlign = "right";
    pen.fillText(`rises by ${percent(far)} →`, width - 20, height - 10);
  }

  nearest(event) {
    const box = this.node.getBoundingClientRect(), at = [event.clientX - box.left, event.clientY - box.top];
    let best = null, near = 400;
    (this.places || []).forEach(([x, y], index) => {
      const distance = (x - at[0]) ** 2 + (y - at[1]) ** 2;
      if (distance < near) [best, near] = [index, distance];
    });
    return best;
  }

  step(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by || !this.tasks.name.length) return;
    event.preventDefault();
    const order = this.tasks.name.map((_, index) => index).sort((a, b) => this.tasks.share[b] - this.tasks.share[a]);
    const place = this.chosen == null ? (by > 0 ? -1 : 0) : order.indexOf(this.chosen);
    this.choose(order.at((place + by) % order.length));
  }

  choose(index, pen) {
    const changed = index !== this.chosen;
    this.chosen = index;
    if (changed) this.draw(this.tasks);
    const { name, episodes, share, success, progress } = this.tasks;
    const rise = index == null || progress[index] == null ? "too new to say whether it rises" : `${progress[index] < 0 ? "fallen" : "risen"} by ${percent(Math.abs(progress[index]), 1)}`;
    this.told.textContent = index == null ? "" : `${name[index]}: ${whole(episodes[index])} episodes, share ${percent(share[index], 1)}, success ${percent(success[index])}, ${rise}`;
    if (!pen || index == null) return;
    pen.strokeStyle = ink("--ink");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(...this.places[index], 8, 0, 7);
    pen.stroke();
  }
}
