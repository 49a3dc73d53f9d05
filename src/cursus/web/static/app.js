"use strict";
// The page: a list of runs, one run, or two side by side. What it shows comes from the server as it changes.

const content = document.getElementById("content");
const crumbs = document.getElementById("crumbs");
const live = document.getElementById("live");
const RETRY_MS = 3000, AGES_MS = 5000, ASKED_AFTER_MS = 250;
let source = null, again = null;

// ---- what the server says

function listen(names, heard) {
  if (source) source.close();
  again = () => listen(names, heard);
  const url = `/api/stream?${new URLSearchParams(names.map((name) => ["name", name]))}`;
  const mine = source = new EventSource(url);
  mine.onopen = () => { live.textContent = "live"; live.className = "on"; };
  mine.onmessage = (event) => heard(JSON.parse(event.data));
  mine.onerror = async () => {
    live.textContent = "no answer: is the server still running?";
    live.className = "off";
    if (mine.readyState !== EventSource.CLOSED) return; // it tries again by itself
    const why = await refusal(url);
    if (mine !== source) return;
    if (why) content.replaceChildren(el("section", {}, el("p", { class: "note" }, why)));
    else setTimeout(() => { if (mine === source) listen(names, heard); }, RETRY_MS);
  };
}

// A browser keeps few connections to a server: those of pages that nobody sees would be missing.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) again();
  else source.close();
});

async function refusal(url) {
  const asked = new AbortController();
  try {
    const answer = await fetch(url, { signal: asked.signal });
    if (!answer.ok) return (await answer.json()).error;
    asked.abort();
  } catch { /* no answer at all */ }
  return null;
}

async function ask(path, query) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

// ---- parts of the page

// Replaces what is in a place; what has the focus, and how far things are scrolled, stays.
function redraw(place, nodes) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const scrolled = [...place.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  place.replaceChildren(...nodes);
  [...place.querySelectorAll(".scroll")].forEach((each, index) => { [each.scrollLeft, each.scrollTop] = scrolled[index] || [0, 0]; });
  if (focused) [...place.querySelectorAll("[data-key]")].find((each) => each.dataset.key === focused)?.focus({ preventScroll: true });
}

// A place that is drawn anew only if what it shows is something else.
class Drawn {
  constructor(node) {
    this.node = node;
    this.drawn = null;
  }

  draw(data, make) {
    const key = JSON.stringify(data);
    if (key !== this.drawn) redraw(this.node, make());
    this.drawn = key;
  }
}

// A section with a title that is hidden while there is nothing to show.
class Part {
  constructor(title, { whole = false, fixed = [] } = {}) {
    this.body = new Drawn(el("div"));
    this.node = el("section", { class: whole ? "whole" : null, hidden: true }, el("h2", {}, title), ...fixed, this.body.node);
  }

  draw(data, make) {
    this.node.hidden = data == null;
    if (data != null) this.body.draw(data, make);
  }
}

const state = (run) => el("span", { class: `pill ${run.state}` }, run.state);

function ago(time) {
  const seconds = Math.max(Date.now() / 1000 - time, 0);
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= 2 * length) return `${Math.round(seconds / length)} ${unit}s ago`;
  }
  return seconds < 5 ? "just now" : `${Math.round(seconds)} seconds ago`;
}

const age = (time) => el("span", time == null ? {} : { "data-time": time }, time == null ? "–" : ago(time));

setInterval(() => {
  for (const each of document.querySelectorAll("[data-time]")) each.textContent = ago(Number(each.dataset.time));
}, AGES_MS);

function table(columns, rows) {
  const head = el("tr", {}, ...columns.map(([name, kind]) => el("th", { class: kind || null, scope: "col" }, name)));
  const body = rows.map((row) => el("tr", {}, ...row.map((cell, index) => el("td", { class: columns[index][1] || null }, cell instanceof Node ? cell : String(cell)))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
}

// ---- all runs

const COLUMNS = [["", ""], ["run", "name"], ["state", ""], ["curriculum", ""], ["stage", ""], ["episodes", "number"], ["success, last 100", "number"], ["changed", ""]];

// A row of the list, which stays the same while its texts change: a click is not lost.
class RunRow {
  constructor(name, chosen) {
    this.box = el("input", { type: "checkbox", "aria-label": `Choose ${name}`, onchange: () => chosen(name, this.box.checked) });
    this.link = el("a", { href: `#/run/${encodeURIComponent(name)}` }, name);
    this.cells = COLUMNS.map(([, kind]) => el("td", { class: kind || null }));
    this.cells[0].append(this.box);
    this.cells[1].append(this.link);
    this.node = el("tr", {}, ...this.cells);
    this.drawn = "";
  }

  draw(run) {
    const key = JSON.stringify(run);
    if (key === this.drawn) return;
    this.drawn = key;
    const last = run.note ? el("span", { class: "note" }, short(run.note, 120)) : age(run.time);
    [state(run), run.curriculum, run.stage ?? "", whole(run.episodes), percent(run.success), last].forEach((each, index) => this.cells[index + 2].replaceChildren(each));
  }
}

function listPage() {
  crumbs.replaceChildren();
  document.title = "Cursus: runs";
  const chosen = new Set(), rows = new Map();
  const compare = el("button", { disabled: true, onclick: () => { location.hash = `#/compare/${[...chosen].map(encodeURIComponent).join("/")}`; } }, "Compare two");
  const filter = el("input", { type: "search", placeholder: "filter by name", "aria-label": "Filter by name", oninput: () => draw(runs) });
  const said = el("p", { class: "soft" }, "looking for runs …"), listed = table(COLUMNS, []), body = listed.querySelector("tbody");
  let runs = [];
  listed.hidden = true;
  content.replaceChildren(el("section", {}, el("h1", {}, "Runs"), el("div", { class: "row" }, filter, compare), said, listed));

  function choose(name, on) {
    on ? chosen.add(name) : chosen.delete(name);
    compare.disabled = chosen.size !== 2;
  }

  function draw(found) {
    runs = found;
    listed.hidden = !found.length;
    said.hidden = found.length > 0;
    said.replaceChildren("There is no run here yet. A run folder appears with ", el("code", {}, 'cursus.Teacher(curriculum, run="runs/first")'), " or ", el("code", {}, "cursus train"), ".");
    const wanted = found.filter((run) => run.name.toLowerCase().includes(filter.value.toLowerCase())).map((run) => {
      if (!rows.has(run.name)) rows.set(run.name, new RunRow(run.name, choose));
      rows.get(run.name).draw(run);
      return rows.get(run.name).node;
    });
    if (wanted.length !== body.children.length || wanted.some((row, index) => row !== body.children[index])) body.replaceChildren(...wanted);
  }

  listen([], draw);
}

// ---- one run

class RunPanel {
  constructor(name) {
    this.name = name;
    this.by = null;
    this.what = "success";
    this.head = el("section", { class: "whole" }, el("h1", {}, name), el("p", { class: "soft" }, "reading the record …"));
    this.gates = new Part("What is missing", { whole: true });
    this.ribbon = new Part("Stages", { whole: true });
    this.curves = new Curves("success", "ticket", { share: true });
    this.choices = new Drawn(el("div", { class: "row" }));
    this.success = new Part("Over the run", { whole: true, fixed: [this.choices.node, this.curves.node] });
    this.tables = new Part("Now");
    this.explained = new Part("In words");
    this.points = new TaskPoints();
    this.tasks = new Part("Tasks: share and progress", { fixed: [this.points.node, this.points.legend, this.points.told] });
    this.map = new Part("Newest episodes by task", { whole: true });
    this.decisions = new Part("Decisions");
    this.whatIf = new WhatIf(name);
    this.metric = el("select", { "aria-label": "Which metric", onchange: () => this.askMetric() });
    this.metricCurve = new Curves("metric", "step");
    this.metrics = new Part("Metrics", { fixed: [this.metric, this.metricCurve.node] });
    this.evaluation = new CurvePart("Evaluation", "success", "step", { share: true });
    this.returns = new CurvePart("Return of an episode", "mean return", "ticket");
    this.lengths = new CurvePart("Length of an episode", "mean length", "ticket");
    this.tickets = new Part("Tickets");
    const parts = [this.gates, this.ribbon, this.success, this.tables, this.explained, this.tasks, this.decisions, this.map,
      this.whatIf, this.metrics, this.evaluation, this.returns, this.lengths, this.tickets];
    this.node = el("div", { class: "panel" }, this.head, ...parts.map((part) => part.node));
  }

  update(data) {
    this.data = data;
    const tables = Object.entries(data.tables || {}).filter(([name, rows]) => rows.length && !(name === "labels" && rows.every((row) => row.stage === row.label)));
    this.stageNames = ((data.tables || {}).stages || []).map((row) => String(row.stage));
    this.drawHead(data);
    this.drawGates(data);
    this.drawRibbon(data);
    this.drawSuccess();
    this.tables.draw(tables.length ? tables : null, () => tables.flatMap(([name, rows]) => [el("h3", { class: "soft" }, name), statusTable(rows)]));
    this.explained.draw(data.explain || null, () => data.explain.split("\n").map((line) => el("p", {}, line)));
    this.drawTasks(data);
    this.drawDecisions(data);
    this.whatIf.begin(data.threshold);
    this.drawMetrics(data);
    this.evaluation.draw(data.evaluations);
    this.returns.draw(data.returns);
    this.lengths.draw(data.lengths);
    this.tickets.draw(data.tickets ? [data.tickets, data.end, data.oldest] : null, () => balance(data));
  }

  drawHead(data) {
    const said = [data.curriculum, data.stage == null ? null : `stage ${data.stage}`, `${whole(data.episodes)} episodes`, `${percent(data.success)} of the last 100 succeeded`];
    const notes = [...data.notes || []];
    if (data.left_out) notes.push(`Events that do not fit those before them, and are left out: ${whole(data.left_out)}.`);
    if (data.metric_rows_left_out) notes.push(`Damaged rows of metrics, which are left out: ${whole(data.metric_rows_left_out)}.`);
    this.head.replaceChildren(
      el("h1", {}, this.name, " ", state(data)),
      el("p", { class: "soft" }, said.filter(Boolean).join(", "), "; changed ", age(data.time)),
      ...notes.map((note) => el("p", { class: "note" }, note)),
      data.read < 1 ? el("p", { class: "soft" }, `reading the record: ${percent(data.read)}`) : "",
    );
  }

  drawGates({ meters = [], explain = "" }) {
    const lines = explain.split("\n").filter((line) => /^(Gate|Held back|Demotion)/.test(line));
    const missing = (meter) => (meter.done ? "passed" : meter.remaining == null ? "not at the present rate" : meter.remaining ? `about ${whole(meter.remaining)} more episodes at the present rate` : "now met");
    const title = (meter) => `${meter.of} ${meter.name}: ${missing(meter)}`;
    this.gates.draw(meters.length ? [meters, lines] : null, () => [
      ...meters.flatMap((meter) => [el("p", { class: "soft" }, title(meter)), gateMeter(meter)]),
      ...lines.map((line) => el("p", {}, line)),
    ]);
  }

  drawRibbon({ stays = [], stage, decisions = [], end }) {
    const known = stays.length || stage == null ? stays : [{ name: String(stage), from: 0, kind: "start" }];
    const loud = decisions.filter((each) => LOUD.has(each.kind)).map(({ kind, ticket, text }) => ({ kind, ticket, text }));
    const names = this.stageNames.length <= 40 ? this.stageNames : [], room = this.head.clientWidth - 34;
    this.ribbon.draw(known.length && end ? [known, loud, end, room] : null, () => [el("div", { class: "scroll" }, stageRibbon(known, names, loud, end, room))]);
  }

  drawSuccess() {
    const found = this.data.groups || {}, kinds = Object.keys(found).reverse(), shown = kinds.length && found[kinds[0]].x.length;
    this.success.node.hidden = !shown;
    if (!shown) return;
    if (!kinds.includes(this.by)) this.by = kinds[0];
    const choice = (text, on, act) => el("button", { "aria-pressed": String(on), "data-key": text, onclick: () => { act(); this.drawSuccess(); } }, text);
    this.choices.draw([kinds, this.what, this.by], () => [
      ...["success", "share"].map((each) => choice(each, this.what === each, () => { this.what = each; })),
      ...(kinds.length > 1 ? kinds.map((each) => choice(`by ${each}`, this.by === each, () => { this.by = each; })) : []),
    ]);
    const { x, groups } = found[this.by], largest = [...groups].sort((a, b) => b.episodes - a.episodes).slice(0, COLOURS);
    const kept = groups.filter((each) => largest.includes(each)), place = (each, index) => { const row = this.stageNames.indexOf(each.name); return row < 0 ? index : row; };
    const band = (each) => (this.what === "success" ? { low: each.low, high: each.high } : {});
    this.curves.draw(x, kept.map((each, index) => ({ name: each.name, y: each[this.what], colour: place(each, index), ...band(each) })));
  }

  drawTasks({ tasks, map }) {
    this.tasks.node.hidden = !tasks || tasks.name.length < 2;
    if (!this.tasks.node.hidden) this.points.draw(tasks);
    this.map.draw(map, () => [el("div", { class: "maps" },
      el("div", {}, el("p", { class: "soft" }, `success in the newest ${whole(map.episodes)} episodes`), heatMap(map, "success")),
      el("div", {}, el("p", { class: "soft" }, "their share"), heatMap(map, "share")))]);
  }

  drawDecisions({ decisions = [], decided = {} }) {
    const open = new Set([...this.decisions.node.querySelectorAll("details[open]")].map((each) => each.dataset.ticket));
    const kinds = Object.entries(decided).map(([kind, count]) => `${whole(count)} × ${kind}`);
    this.decisions.draw(kinds.length ? [decisions, decided] : null, () => [
      el("p", { class: "soft" }, `${kinds.join(", ")}. Changes of mix and evictions are not listed.`),
      el("ul", { class: "decisions scroll" }, ...[...decisions].reverse().map((each) => {
        const key = `${each.ticket} ${each.kind}`;
        return el("li", {}, el("details", { "data-ticket": key, open: open.has(key) },
          el("summary", { "data-key": key }, el("span", { class: "soft" }, `ticket ${whole(each.ticket)} `), el("span", { class: TONES[each.kind] }, each.text)),
          el("dl", {}, ...Object.entries(each.evidence).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]))));
      })),
    ]);
  }

  drawMetrics({ metric_names: names = [], metric_rows: rows }) {
    this.metrics.node.hidden = !names.length;
    if (!names.length || this.metricsDrawn === `${rows} ${names.length}`) return;
    if (names.length !== this.metric.options.length) {
      const before = this.metric.value;
      this.metric.replaceChildren(...names.map((name) => el("option", {}, name)));
      this.metric.value = names.includes(before) ? before : names.find((name) => /^rollout\/.*(return|success)/.test(name)) || names.find((name) => /return|success|score/.test(name)) || names[0];
    }
    this.metricsDrawn = `${rows} ${names.length}`;
    this.askMetric();
  }

  async askMetric() {
    const name = this.metric.value, found = await ask("/api/metric", { name: this.name, metric: name }).catch(() => null);
    if (found && this.metric.value === name && found.x.length) this.metricCurve.draw(found.x, [{ name, y: found.y }]);
  }
}

const TONES = { promotion: "good", graduation: "good", completion: "good", demotion: "bad", forgetting: "bad" };

function statusTable(rows) {
  const keys = Object.keys(rows[0]).filter((key) => !["low", "high"].includes(key) && rows.some((row) => row[key] != null));
  const cell = (row, key) => {
    const value = row[key];
    if (value == null) return "–";
    if (key === "success") return row.low == null ? percent(value) : `${percent(value)} (${Math.round(100 * row.low)}–${Math.round(100 * row.high)})`;
    if (["mix", "share"].includes(key)) return percent(value);
    return typeof value === "number" ? number(value) : String(value);
  };
  const kind = (key) => (rows.some((row) => typeof row[key] === "number") ? "number" : "");
  return table(keys.map((key) => [key.replaceAll("_", " "), kind(key)]), rows.map((row) => keys.map((key) => cell(row, key))));
}

function balance({ tickets, end, oldest }) {
  const parts = ["finished", "lost", "withdrawn", "in_flight"].map((name) => `${whole(tickets[name])} ${name.replace("_", " ")}`);
  const behind = oldest == null || end - oldest < 1 ? [] : [el("p", {}, `The oldest open episode is that of ticket ${whole(oldest)}: ${whole(end - 1 - oldest)} newer ones were handed out.`)];
  const held = tickets.held_back ? [el("p", {}, `${whole(tickets.held_back)} finished results wait for older episodes.`)] : [];
  const late = tickets.censored ? [el("p", {}, `${whole(tickets.censored)} episodes took too long and counted as failures.`)] : [];
  return [el("p", {}, `${whole(tickets.assigned)} assigned = ${parts.join(" + ")}`), ...behind, ...held, ...late];
}

class CurvePart {
  constructor(title, name, along, settings) {
    this.name = name;
    this.curves = new Curves(name, along, settings);
    this.node = el("section", { hidden: true }, el("h2", {}, title), this.curves.node);
  }

  draw(found) {
    this.node.hidden = !found || found.x.length < 2;
    if (!this.node.hidden) this.curves.draw(found.x, [{ name: this.name, y: found.y }]);
  }
}

// ---- what another threshold would have decided

class WhatIf {
  constructor(name) {
    this.name = name;
    this.timer = null;
    this.said = el("div", { "aria-live": "polite" }, el("p", { class: "soft" }, "Move the slider: every visit of a stage is judged anew."));
    this.value = el("span", {});
    this.slider = el("input", { type: "range", min: 5, max: 99, "aria-label": "Another threshold", oninput: () => {
      this.value.textContent = `${this.slider.value} %`;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.ask(), ASKED_AFTER_MS);
    } });
    this.node = el("section", { hidden: true }, el("h2", {}, "What if the threshold were another?"), el("div", { class: "row" }, this.slider, this.value), this.said);
  }

  begin(threshold) {
    if (this.node.hidden && threshold != null) {
      this.slider.value = Math.round(100 * threshold);
      this.value.textContent = `${this.slider.value} %`;
    }
    this.node.hidden = threshold == null;
  }

  async ask() {
    const asked = this.slider.value, threshold = asked / 100;
    this.said.replaceChildren(el("p", { class: "soft" }, "judging …"));
    const found = await ask("/api/what-if", { name: this.name, threshold }).catch((error) => error);
    if (asked !== this.slider.value) return;
    this.said.replaceChildren(...(found instanceof Error ? [el("p", { class: "note" }, found.message)] : this.visits(found)));
  }

  visits({ visits, left_out: leftOut }) {
    const ended = (decided, after) => `${decided}${after == null ? "" : ` after ${whole(after)}`}`;
    const rows = visits.map((visit) => [visit.stage, whole(visit.episodes), ended(visit.decided, visit.after),
      el("span", { title: visit.reason, class: visit.would_decide === visit.decided ? null : TONES[visit.would_decide] || "bad" }, ended(visit.would_decide, visit.would_after))]);
    return [
      table([["stage", "name"], ["episodes", "number"], ["it was", ""], ["it would have been", ""]], rows),
      el("p", { class: "soft" }, `Each visit is judged on the episodes that were drawn for it; what would have followed is unknown.${leftOut ? ` ${whole(leftOut)} earlier visits are not listed.` : ""}`),
    ];
  }
}

// ---- where to

function runPage(names) {
  document.title = `Cursus: ${names.join(", ")}`;
  crumbs.replaceChildren(el("a", { href: "#/" }, "runs"), ` / ${names.join(" and ")}`);
  const panels = new Map(names.map((name) => [name, new RunPanel(name)]));
  content.replaceChildren(el("div", { class: `columns ${names.length === 2 ? "two" : ""}` }, ...[...panels.values()].map((panel) => panel.node)));
  listen(names, (data) => panels.get(data.name)?.update(data));
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function route() {
  const [kind, ...names] = location.hash.replace(/^#\//, "").split("/").map(decoded);
  if (kind === "run" && names.length === 1) runPage(names);
  else if (kind === "compare" && names.length === 2 && names[0] !== names[1]) runPage(names);
  else listPage();
}

window.addEventListener("hashchange", () => { route(); content.focus(); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", route);
route();
