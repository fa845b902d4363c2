// Page: grids of tasks and evaluations or iterations, coloured by the share of resolved attempts.

import { make, makeAddress } from "./dom.js";
import { fetchData } from "./data.js";

const NUM_COLOURS = 4;
const ORDERS = {
  task: () => 0,
  "solve rate": (row) => mean(row.cells),
  "gain, first to last": (row) => change(row.cells),
};

export async function showTasks(run, order = "task", text = "") {
  const { data, tag } = await fetchData(run, "tasks");
  return { tag, nodes: () => [make("h1", {}, "Tasks"), makeForm(run, order, text), ...data.flatMap((grid) => makeGrid(run, grid, order, text))] };
}

function makeForm(run, order, text) {
  const choice = make("select", { name: "order" }, ...Object.keys(ORDERS).map((name) => make("option", name === order ? { selected: "" } : {}, name)));
  const field = make("input", { type: "search", name: "text", value: text, autocomplete: "off" });
  const form = make("form", {}, make("label", {}, "order", choice), make("label", {}, "text in the id", field), make("button", {}, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = makeAddress("tasks", run, choice.value, field.value);
  });
  return form;
}

function makeGrid(run, grid, order, text) {
  const key = ORDERS[order] ?? ORDERS.task;
  const rows = grid.rows.filter((row) => row.task.includes(text)).sort((one, other) => key(one) - key(other));
  const head = make("tr", {}, ...["task", ...grid.columns.map(nameColumn)].map((title) => make("th", { scope: "col" }, title)));
  const body = rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row.task), ...row.cells.map((cell, at) => makeCell(run, grid.columns[at], row.task, cell))));
  return [
    make("h2", {}, `${grid.name}: ${rows.length} of ${grid.rows.length} tasks`),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))),
  ];
}

/** Name a column by its stage, or by its iteration, counted from 1: `stage1 3`. */
function nameColumn(journal) {
  const [kind, stage, name] = journal.split("/");
  return kind === "evals" ? stage : `${stage} ${Number(name.split("-")[1]) + 1}`;
}

/** Make a cell with resolved and counted attempts, which links to the group of these attempts. */
function makeCell(run, journal, task, cell) {
  if (!cell) return make("td");
  const [resolved, all] = cell;
  const colour = Math.min(NUM_COLOURS - 1, Math.floor((NUM_COLOURS * resolved) / all));
  const href = makeAddress("group", run, journal, task);
  return make("td", { class: `rate rate-${colour}` }, make("a", { href }, `${resolved}/${all}`));
}

function rates(cells) {
  return cells.filter(Boolean).map(([resolved, all]) => resolved / all);
}

function mean(cells) {
  const all = rates(cells);
  return all.reduce((sum, rate) => sum + rate, 0) / Math.max(1, all.length);
}

function change(cells) {
  const all = rates(cells);
  return all.length ? all.at(-1) - all[0] : 0;
}
