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

const colour = (index) => getComputedStyle(document.documentElement).getPropertyValue(`--c${index % COLOURS}`).trim();
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const percent = (value, digits = 0) => (value == null ? "–" : `${(100 * value).toFixed(digits)} %`);
const whole = (value) => (value == null ? "–" : Math.round(value).toLocaleString("en"));
const short = (text, most = 22) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function titled(node, text) {
  node.append(shape("title", {}, text));
  return node;
}

// ---- curves

// A chart that is made anew only when its curves are others; `series` is [{name, y, low, high}].
class Curves {
  constructor(label, { share = false, height = 220 } = {}) {
    this.node = el("div", { class: "chart", role: "img", "aria-label": label });
    this.share = share;
    this.height = height;
    this.key = "";
    this.plot = null;
    new ResizeObserver(() => this.plot && this.plot.setSize({ width: this.node.clientWidth || 400, height })).observe(this.node);
  }

  draw(x, series) {
    const key = series.map((each) => each.name).join("\u0000") + ink("--ink");
    const banded = series.length <= 4 && series.every((each) => each.low);
    const data = [x];
    for (const each of series) {
      data.push(each.y);
      if (banded) data.push(each.high, each.low);
    }
    if (this.plot && key === this.key && data.length === this.plot.series.length) {
      this.plot.setData(data);
      return;
    }
    this.key = key;
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot(this.options(series, banded), data, this.node);
  }

  options(series, banded) {
    const axis = { stroke: ink("--soft"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line") } };
    const value = this.share ? (_, v) => percent(v, 1) : (_, v) => (v == null ? "–" : Number(v.toPrecision(4)).toLocaleString("en"));
    const lines = [{ label: "episode or step", value: (_, v) => whole(v) }];
    const bands = [];
    series.forEach((each, index) => {
      const stroke = colour(index);
      lines.push({ label: short(each.name), stroke, width: 2, value, spanGaps: true, points: { show: series.length < 3 ? undefined : false } });
      if (banded) {
        lines.push({ show: true, label: "", stroke: "transparent", width: 0, spanGaps: true, points: { show: false }, class: "hidden" });
        lines.push({ show: true, label: "", stroke: "transparent", width: 0, spanGaps: true, points: { show: false }, class: "hidden" });
        bands.push({ series: [lines.length - 2, lines.length - 1], fill: `${stroke}33` });
      }
    });
    return {
      width: this.node.clientWidth || 400,
      height: this.height,
      series: lines,
      bands,
      scales: { x: { time: false }, y: this.share ? { range: [0, 1] } : {} },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en", { notation: "compact" })) },
        { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => (this.share ? percent(tick) : Number(tick.toPrecision(6)).toLocaleString("en", { notation: "compact" }))) },
      ],
      legend: { live: true },
      cursor: { points: { size: 6 } },
      hooks: {
        init: [(plot) => {
          lines.forEach((line, index) => {
            if (line.class === "hidden") plot.root.querySelectorAll(".u-series")[index].hidden = true;
          });
        }],
      },
    };
  }
}

// ---- the gate meter: the rate with its interval, and the threshold that it must reach

function gateMeter(row, threshold) {
  const width = window.innerWidth < 600 ? 340 : 600, long = width - 20;
  const drawn = shape("svg", { viewBox: `0 0 ${width} 74`, role: "img", class: "meter" });
  const x = (value) => 10 + long * Math.min(Math.max(value, 0), 1);
  titled(drawn, `success ${percent(row.success)}, between ${percent(row.low)} and ${percent(row.high)}; the threshold is ${percent(threshold)}`);
  drawn.append(shape("rect", { x: 10, y: 26, width: long, height: 16, rx: 8, class: "zero" }));
  if (row.low != null && row.high != null) {
    drawn.append(shape("rect", { x: x(row.low), y: 26, width: Math.max(x(row.high) - x(row.low), 2), height: 16, rx: 3, class: "band" }));
  }
  if (row.success != null) {
    const reached = threshold != null && row.low >= threshold;
    drawn.append(shape("circle", { cx: x(row.success), cy: 34, r: 8, class: reached ? "met" : "f0" }));
    drawn.append(shape("text", { x: x(row.success), y: 18, "text-anchor": row.success > 0.85 ? "end" : "middle" }, percent(row.success)));
  }
  if (threshold != null) {
    drawn.append(shape("line", { x1: x(threshold), x2: x(threshold), y1: 20, y2: 50, class: "bar" }));
    drawn.append(shape("text", { x: x(threshold), y: 66, "text-anchor": threshold > 0.85 ? "end" : "middle", class: "soft" }, `threshold ${percent(threshold)}`));
  }
  return drawn;
}

// ---- which stage was the present one, and what was decided

const LOUD = new Set(["promotion", "demotion", "graduation", "completion", "forgetting", "rehearsal", "phase", "stage", "settings"]);

function stageRibbon(stays, names, decisions, end) {
  const order = names.length ? names : [...new Set(stays.map((each) => each.name))];
  const height = 22, top = 8, left = 150, width = 900, last = Math.max(end, 1);
  const drawn = shape("svg", { viewBox: `0 0 ${left + width + 10} ${top + height * order.length + 24}`, role: "img", class: "ribbon" });
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
  const [columns, rows] = map.ticks, left = 110, cell = Math.min(52, 620 / columns.length), tall = Math.min(30, 420 / rows.length);
  const drawn = shape("svg", { viewBox: `0 0 ${left + cell * columns.length + 10} ${tall * rows.length + 44}`, role: "img", class: "map" });
  titled(drawn, `${what} over ${map.names[0]} and ${map.names[1]}`);
  const values = map[what], most = what === "success" ? 1 : Math.max(...values.flat().map((each) => each || 0), 1e-9);
  columns.forEach((column, i) => rows.forEach((row, j) => {
    const value = values[i][j], seen = value != null && (what === "success" || value > 0);
    const box = shape("rect", { x: left + cell * i, y: tall * (rows.length - 1 - j), width: cell - 1.5, height: tall - 1.5, class: seen ? "f0" : "zero" });
    if (seen) box.setAttribute("fill-opacity", 0.12 + 0.88 * (value / most));
    drawn.append(titled(box, `${map.names[0]} ${column}, ${map.names[1]} ${row}: ${seen ? percent(value, 1) : "not practised"}`));
  }));
  const step = Math.ceil(columns.length / 8);
  columns.forEach((column, i) => i % step || drawn.append(shape("text", { x: left + cell * (i + 0.5), y: tall * rows.length + 14, "text-anchor": "middle" }, short(column, 9))));
  const skip = Math.ceil(rows.length / 14);
  rows.forEach((row, j) => j % skip || drawn.append(shape("text", { x: left - 6, y: tall * (rows.length - 0.5 - j) + 4, "text-anchor": "end" }, short(row, 9))));
  drawn.append(shape("text", { x: left, y: tall * rows.length + 34, class: "soft" }, `→ ${short(map.names[0], 40)}`));
  drawn.append(shape("text", { x: 4, y: 14, class: "soft" }, `↑ ${short(map.names[1], 14)}`));
  return drawn;
}

// Every task is a point: how far its success has risen lately, and what share of the episodes it has.
class TaskPoints {
  constructor(told) {
    this.node = el("canvas", { class: "tasks", role: "img", "aria-label": "share and progress of every task", tabindex: "0" });
    this.told = told;
    this.tasks = [];
    this.node.addEventListener("pointermove", (event) => this.name(event));
    new ResizeObserver(() => this.draw(this.tasks)).observe(this.node);
  }

  draw(tasks) {
    this.tasks = tasks;
    const ratio = window.devicePixelRatio || 1, width = this.node.clientWidth || 400, height = 260;
    this.node.width = width * ratio;
    this.node.height = height * ratio;
    const pen = this.node.getContext("2d");
    pen.scale(ratio, ratio);
    const rises = tasks.map((each) => Math.abs(each.progress || 0)), far = Math.max(...rises, 0.05);
    const most = Math.max(...tasks.map((each) => each.share), 1e-9);
    this.place = (each) => [40 + (width - 60) * (0.5 + (each.progress || 0) / (2 * far)), height - 28 - (height - 50) * (each.share / most)];
    pen.strokeStyle = ink("--line");
    pen.beginPath();
    pen.moveTo(40 + (width - 60) / 2, 10);
    pen.lineTo(40 + (width - 60) / 2, height - 28);
    pen.moveTo(40, height - 28);
    pen.lineTo(width - 20, height - 28);
    pen.stroke();
    for (const each of tasks) {
      const [x, y] = this.place(each);
      pen.globalAlpha = 0.75;
      pen.fillStyle = each.success == null ? ink("--soft") : colour(each.success > 0.9 ? 2 : each.success < 0.1 ? 1 : 0);
      pen.beginPath();
      pen.arc(x, y, tasks.length > 500 ? 3 : 5, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.fillStyle = ink("--soft");
    pen.font = "12px system-ui, sans-serif";
    pen.fillText(`falls by ${percent(far)}`, 40, height - 10);
    pen.fillText(`rises by ${percent(far)} →`, width - 120, height - 10);
    pen.fillText(`↑ share, up to ${percent(most, 1)}`, 44, 14);
  }

  name(event) {
    const box = this.node.getBoundingClientRect(), at = [event.clientX - box.left, event.clientY - box.top];
    let best = null, near = 400;
    for (const each of this.tasks) {
      const [x, y] = this.place(each), distance = (x - at[0]) ** 2 + (y - at[1]) ** 2;
      if (distance < near) [best, near] = [each, distance];
    }
    this.told.textContent = best ? `${best.name}: ${whole(best.episodes)} episodes, share ${percent(best.share, 1)}, success ${percent(best.success)}, ${best.progress == null ? "too new to say whether it rises" : `risen by ${percent(best.progress, 1)}`}` : "";
  }
}
