"use strict";
// The page: a list of runs, one run, or two side by side. What it shows comes from the server as it changes.

const content = document.getElementById("content");
const crumbs = document.getElementById("crumbs");
const live = document.getElementById("live");
let source = null;

function show(...nodes) { content.replaceChildren(...nodes); }

function listen(names, heard) {
  if (source) source.close();
  const query = names.map((name) => `name=${encodeURIComponent(name)}`).join("&");
  source = new EventSource(`/api/stream?${query}`);
  source.onopen = () => { live.textContent = "live"; live.className = "on"; };
  source.onerror = () => { live.textContent = "no answer: is the server still running?"; live.className = "off"; };
  source.onmessage = (event) => heard(JSON.parse(event.data));
}

async function ask(path, query) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

const link = (name) => `#/run/${encodeURIComponent(name)}`;
const state = (run) => el("span", { class: `pill ${run.state}` }, run.state);

function ago(time) {
  if (time == null) return "–";
  const seconds = Math.max(Date.now() / 1000 - time, 0);
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= 2 * length) return `${Math.round(seconds / length)} ${unit}s ago`;
  }
  return `${Math.round(seconds)} seconds ago`;
}

function table(columns, rows) {
  const head = el("tr", {}, ...columns.map(([name, kind]) => el("th", { class: kind, scope: "col" }, name)));
  const body = rows.map((row) => el("tr", {}, ...row.map((cell, index) => el("td", { class: columns[index][1] }, cell instanceof Node ? cell : String(cell)))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
}

// ---- all runs

function listPage() {
  crumbs.replaceChildren();
  document.title = "Cursus: runs";
  const chosen = new Set();
  const compare = el("button", { disabled: true, onclick: () => { location.hash = `#/compare/${[...chosen].map(encodeURIComponent).join("/")}`; } }, "Compare two");
  const filter = el("input", { type: "search", placeholder: "filter by name", "aria-label": "Filter by name", oninput: () => draw(runs) });
  const place = el("div", {}, el("p", { class: "soft" }, "looking for runs …"));
  let runs = [];
  show(el("section", {}, el("h1", {}, "Runs"), el("div", { class: "row" }, filter, compare), place));

  function choose(name, box) {
    box.checked ? chosen.add(name) : chosen.delete(name);
    compare.disabled = chosen.size !== 2;
  }

  function draw(found) {
    runs = found;
    if (!found.length) {
      place.replaceChildren(el("p", {}, "There is no run here yet. A run folder appears with "), el("code", {}, 'cursus.Teacher(curriculum, run="runs/first")'), el("span", {}, " or "), el("code", {}, "cursus train"), el("span", {}, "."));
      return;
    }
    const wanted = found.filter((run) => run.name.toLowerCase().includes(filter.value.toLowerCase()));
    const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.run : null;
    place.replaceChildren(table(
      [["", ""], ["run", "name"], ["state", ""], ["curriculum", ""], ["stage", ""], ["episodes", "number"], ["success, last 100", "number"], ["changed", ""]],
      wanted.map((run) => {
        const box = el("input", { type: "checkbox", "aria-label": `Choose ${run.name}`, "data-run": run.name, onchange: (event) => choose(run.name, event.target) });
        box.checked = chosen.has(run.name);
        const name = run.state === "unreadable" ? el("span", { title: run.note }, run.name) : el("a", { href: link(run.name) }, run.name);
        return [box, name, state(run), run.curriculum, run.stage == null ? "" : run.stage, whole(run.episodes), percent(run.success), run.state === "unreadable" ? run.note : ago(run.time)];
      }),
    ));
    if (focus) for (const box of place.querySelectorAll("input")) if (box.dataset.run === focus) box.focus();
  }

  listen([], draw);
}

// ---- one run

function part(title, ...nodes) { return el("section", {}, el("h2", {}, title), ...nodes); }

class RunPanel {
  constructor(name) {
    this.name = name;
    this.by = null;
    this.what = "success";
    this.head = el("section", { class: "whole" });
    this.gate = part("What is missing for the next stage");
    this.gate.className = "whole";
    this.ribbon = part("Stages");
    this.ribbon.className = "whole";
    this.curves = new Curves("success over the run", { share: true });
    this.buttons = el("span", { class: "row" });
    this.success = el("section", { class: "whole" }, el("h2", {}, "Over the run", this.buttons), this.curves.node);
    this.tables = part("Now");
    this.told = el("p", { class: "told soft", "aria-live": "polite" });
    this.points = new TaskPoints(this.told);
    this.tasks = part("Tasks: share and progress", this.points.node, this.told);
    this.map = part("Newest episodes by task");
    this.decisions = part("Decisions");
    this.metric = el("select", { "aria-label": "Which metric", onchange: () => this.drawMetric() });
    this.metricCurve = new Curves("a metric over the training");
    this.metrics = el("section", {}, el("h2", {}, "Metrics", this.metric), this.metricCurve.node);
    this.returnCurve = new Curves("return and length of episodes");
    this.returns = part("Return of an episode", this.returnCurve.node);
    this.lengthCurve = new Curves("length of episodes");
    this.lengths = part("Length of an episode", this.lengthCurve.node);
    this.evaluationCurve = new Curves("success in evaluations", { share: true });
    this.evaluation = part("Evaluation", this.evaluationCurve.node);
    this.tickets = part("Tickets");
    this.whatIf = this.makeWhatIf();
    this.explained = part("In words");
    this.node = el("div", { class: "panel" }, this.head, this.gate, this.ribbon, this.success, this.tables, this.explained, this.tasks, this.map,
      this.decisions, this.whatIf, this.metrics, this.evaluation, this.returns, this.lengths, this.tickets);
    for (const each of this.node.children) if (each !== this.head) each.hidden = true;
    this.head.append(el("h1", {}, name), el("p", { class: "soft" }, "reading the record …"));
  }

  update(data) {
    this.data = data;
    this.head.replaceChildren(...[
      el("h1", {}, this.name, " ", state(data)),
      el("p", { class: "soft" }, `${data.curriculum || "–"}${data.stage == null ? "" : `, stage ${data.stage}`}, ${whole(data.episodes)} episodes, ${percent(data.success)} of the last 100 succeeded; changed ${ago(data.time)}`),
      data.note ? el("p", { class: "note" }, data.note) : null,
      data.read < 1 ? el("p", { class: "soft" }, `reading the record: ${percent(data.read)}`) : null,
      data.left_out ? el("p", { class: "note" }, `${whole(data.left_out)} events do not fit those before them and are left out`) : null,
    ].filter((each) => each != null));
    this.drawGate(data);
    this.drawRibbon(data);
    this.drawSuccess(data);
    this.drawTables(data);
    this.drawTasks(data);
    this.drawDecisions(data);
    this.drawCurve(this.returns, this.returnCurve, data.returns, "mean return");
    this.drawCurve(this.lengths, this.lengthCurve, data.lengths, "mean length");
    this.drawCurve(this.evaluation, this.evaluationCurve, data.evaluations, "success");
    this.listMetrics(data.metric_names || []);
    this.fill(this.tickets, data.tickets, () => [this.balance(data.tickets)]);
    this.fill(this.explained, data.explain, () => data.explain.split("\n").map((line) => el("p", {}, line)));
  }

  fill(section, condition, make) {
    section.hidden = !condition;
    if (condition) section.replaceChildren(section.firstChild, ...make());
  }

  drawGate(data) {
    const rows = ((data.tables || {}).stages || []), row = rows.find((each) => each.status === "current" || each.status === "graduated");
    const index = data.gate && row ? data.gate.stages.indexOf(String(row.stage)) : -1;
    this.fill(this.gate, index >= 0, () => {
      const said = (data.explain || "").split("\n").filter((line) => /^(Gate|Held back|Demotion|Mix|Completed|Rehearsal)/.test(line));
      this.gate.firstChild.textContent = row.status === "graduated" ? `The last stage, ${row.stage}` : `What is missing to leave ${row.stage}`;
      return [gateMeter(row, data.gate.thresholds[index]), ...said.map((line) => el("p", {}, line))];
    });
    const known = data.gate ? data.gate.thresholds.filter((each) => each != null) : [];
    if (this.whatIf.hidden && known.length) {
      this.slider.value = Math.round(100 * known[0]);
      this.whatIf.querySelector("output").textContent = `${this.slider.value} %`;
    }
    this.whatIf.hidden = !known.length;
  }

  drawRibbon(data) {
    const names = ((data.tables || {}).stages || []).map((row) => String(row.stage));
    this.fill(this.ribbon, (data.stays || []).length, () => [el("div", { class: "scroll" }, stageRibbon(data.stays, names.length <= 40 ? names : [], data.decisions, data.end))]);
  }

  drawSuccess(data) {
    const kinds = Object.keys(data.groups || {}).reverse();
    this.success.hidden = !kinds.length || !data.groups[kinds[0]].x.length;
    if (this.success.hidden) return;
    if (!kinds.includes(this.by)) this.by = kinds[0];
    const choice = (text, on, act) => el("button", { "aria-pressed": on ? "true" : "false", onclick: () => { act(); this.drawSuccess(this.data); } }, text);
    this.buttons.replaceChildren(
      ...["success", "share"].map((each) => choice(each, this.what === each, () => { this.what = each; })),
      ...(kinds.length > 1 ? kinds.map((each) => choice(`by ${each}`, this.by === each, () => { this.by = each; })) : []),
    );
    const { x, groups } = data.groups[this.by];
    const largest = [...groups].sort((a, b) => b.episodes - a.episodes).slice(0, 8);
    const kept = groups.filter((each) => largest.includes(each));
    this.curves.draw(x, kept.map((each) => ({ name: each.name, y: each[this.what], ...(this.what === "success" ? { low: each.low, high: each.high } : {}) })));
  }

  drawTables(data) {
    const tables = Object.entries(data.tables || {}).filter(([name, rows]) => rows.length && !(name === "labels" && rows.every((row) => row.stage === row.label)));
    this.fill(this.tables, tables.length, () => tables.flatMap(([name, rows]) => {
      const keys = Object.keys(rows[0]).filter((key) => !["low", "high"].includes(key) && rows.some((row) => row[key] != null));
      const cell = (row, key) => {
        const value = row[key];
        if (value == null) return "–";
        if (key === "success") return row.low == null ? percent(value) : `${percent(value)} (${Math.round(100 * row.low)}–${Math.round(100 * row.high)})`;
        if (["mix", "share"].includes(key)) return percent(value);
        return typeof value === "number" ? (Number.isInteger(value) ? whole(value) : Number(value.toPrecision(3)).toString()) : String(value);
      };
      return [el("h3", { class: "soft" }, name), table(keys.map((key) => [key.replaceAll("_", " "), typeof rows[0][key] === "number" ? "number" : ""]), rows.map((row) => keys.map((key) => cell(row, key))))];
    }));
  }

  drawTasks(data) {
    const tasks = data.tasks || [];
    this.tasks.hidden = tasks.length < 2;
    if (tasks.length > 1) this.points.draw(tasks);
    this.fill(this.map, data.map, () => [el("p", { class: "soft" }, `success in the newest ${whole(data.map.episodes)} episodes`), heatMap(data.map, "success"), el("p", { class: "soft" }, "their share"), heatMap(data.map, "share")]);
  }

  drawDecisions(data) {
    const found = data.decisions || [], kinds = Object.entries(data.decided || {});
    const open = new Set([...this.decisions.querySelectorAll("details[open]")].map((each) => each.dataset.ticket));
    this.fill(this.decisions, found.length, () => [
      el("p", { class: "soft" }, `${kinds.map(([kind, count]) => `${whole(count)} × ${kind}`).join(", ")}. Changes of mix and evictions are not listed.`),
      el("ul", { class: "decisions" }, ...[...found].reverse().map((each) => {
        const key = `${each.ticket} ${each.kind}`;
        return el("li", {}, el("details", { "data-ticket": key, open: open.has(key) },
          el("summary", {}, el("span", { class: "soft" }, `ticket ${whole(each.ticket)} `), el("span", { class: each.kind }, each.text)),
          el("dl", {}, ...Object.entries(each.evidence).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]))));
      })),
    ]);
  }

  drawCurve(section, curves, found, name) {
    section.hidden = !found || found.x.length < 2;
    if (!section.hidden) curves.draw(found.x, [{ name, y: found.y }]);
  }

  listMetrics(names) {
    this.metrics.hidden = !names.length;
    if (names.length === this.metric.options.length) { if (names.length) this.drawMetric(); return; }
    const before = this.metric.value;
    this.metric.replaceChildren(...names.map((name) => el("option", {}, name)));
    this.metric.value = names.includes(before) ? before : names.find((name) => /return|success|score/.test(name)) || names[0];
    this.drawMetric();
  }

  async drawMetric() {
    const name = this.metric.value;
    const found = await ask("/api/metric", { name: this.name, metric: name }).catch(() => null);
    if (found && this.metric.value === name && found.x.length) this.metricCurve.draw(found.x, [{ name, y: found.y }]);
  }

  balance(tickets) {
    const parts = ["finished", "lost", "withdrawn", "in_flight"].map((name) => `${whole(tickets[name])} ${name.replace("_", " ")}`);
    const more = ["held_back", "censored"].filter((name) => tickets[name]).map((name) => `${whole(tickets[name])} ${name.replace("_", " ")}`);
    return el("p", {}, `${whole(tickets.assigned)} assigned = ${parts.join(" + ")}${more.length ? `; of them ${more.join(", ")}` : ""}`);
  }

  makeWhatIf() {
    const said = el("div", { "aria-live": "polite" }, el("p", { class: "soft" }, "Move the slider: every visit of a stage is judged anew."));
    const value = el("output", {}, "70 %");
    let timer = null;
    const asked = async () => {
      said.replaceChildren(el("p", { class: "soft" }, "judging …"));
      const threshold = slider.value / 100;
      try {
        const found = await ask("/api/what-if", { name: this.name, threshold });
        if (threshold !== slider.value / 100) return;
        said.replaceChildren(table([["stage", "name"], ["episodes", "number"], ["it was", ""], ["it would have been", ""]],
          found.visits.map((visit) => [visit.stage, whole(visit.episodes), `${visit.decided}${visit.after == null ? "" : ` after ${whole(visit.after)}`}`,
            el("span", { title: visit.reason, class: visit.would_decide === visit.decided ? "" : visit.would_decide }, `${visit.would_decide}${visit.would_after == null ? "" : ` after ${whole(visit.would_after)}`}`)])),
        el("p", { class: "soft" }, "Each visit is judged on the episodes that were drawn for it; what would have followed is unknown."));
      } catch (error) {
        said.replaceChildren(el("p", { class: "note" }, error.message));
      }
    };
    const slider = this.slider = el("input", { type: "range", min: 5, max: 99, value: 70, "aria-label": "Another threshold for every gate", oninput: () => {
      value.textContent = `${slider.value} %`;
      clearTimeout(timer);
      timer = setTimeout(asked, 250);
    } });
    return el("section", { hidden: true }, el("h2", {}, "What if the threshold were another?"), el("div", { class: "row" }, slider, value), said);
  }
}

function runPage(names) {
  document.title = `Cursus: ${names.join(", ")}`;
  crumbs.replaceChildren(el("a", { href: "#/" }, "runs"), document.createTextNode(` / ${names.join(" and ")}`));
  const panels = new Map(names.map((name) => [name, new RunPanel(name)]));
  show(el("div", { class: `columns ${names.length === 2 ? "two" : ""}` }, ...[...panels.values()].map((panel) => panel.node)));
  listen(names, (data) => { const panel = panels.get(data.name); if (panel) panel.update(data); });
}

// ---- where to

function route() {
  const [kind, ...names] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  if (kind === "run" && names.length === 1) runPage(names);
  else if (kind === "compare" && names.length === 2 && names[0] !== names[1]) runPage(names);
  else listPage();
}

window.addEventListener("hashchange", () => { route(); content.focus(); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", route);
route();
