// Page: grids of tasks and evaluations or iterations, coloured by the share of resolved attempts.

import { make, makeAddress } from "./dom.js";
import { fetchData } from "./data.js";

const NUM_COLOURS = 4;
const GAIN = "gain since ";
const OUTCOMES = {
  all: () => true,
  "never resolved": (row) => mean(row.cells) === 0,
  "sometimes resolved": (row) => mean(row.cells) > 0 && mean(row.cells) < 1,
  "always resolved": (row) => mean(row.cells) === 1,
};

export async function showTasks(run, order = "task", text = "", outcome = "all", repository = "") {
  const { data, tag } = await fetchData(run, "tasks");
  const choice = { order, text, outcome, repository };
  return { tag, nodes: () => [make("h1", {}, "Tasks"), makeForm(run, choice, data), ...data.flatMap((grid) => makeGrid(run, grid, choice))] };
}

/** Make the form of order and filters, which changes the address when it is sent. */
function makeForm(run, choice, grids) {
  const repositories = [...new Set(grids.flatMap((grid) => grid.rows.map((row) => row.repository)))].sort();
  const option = (value, chosen) => make("option", { value, ...(value === chosen ? { selected: "" } : {}) }, value || "all");
  const select = (title, name, values) => make("label", {}, title, make("select", { name }, ...values.map((value) => option(value, choice[name]))));
  const field = make("input", { type: "search", name: "text", value: choice.text, autocomplete: "off" });
  const form = make(
    "form",
    {},
    select("order", "order", ["task", "solve rate", ...listStages(grids).map((name) => GAIN + name)]),
    select("outcome", "outcome", Object.keys(OUTCOMES)),
    select("repository", "repository", ["", ...repositories]),
    make("label", {}, "text in the id", field),
    make("button", {}, "Show"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = new FormData(form);
    location.hash = makeAddress("tasks", run, ...["order", "text", "outcome", "repository"].map((name) => values.get(name)));
  });
  return form;
}

/** List the evaluated stages before the last one. */
function listStages(grids) {
  const columns = grids.flatMap((grid) => grid.columns.slice(0, -1)).filter((journal) => journal.startsWith("evals/"));
  return [...new Set(columns.map(nameColumn))];
}

/** Return the function by which the rows of a grid are sorted. A gain is that of the last column; losses come first. */
function makeKey(order, columns) {
  if (order === "solve rate") return (row) => mean(row.cells);
  if (!order.startsWith(GAIN)) return () => 0;
  const from = Math.max(0, columns.map(nameColumn).indexOf(order.slice(GAIN.length)));
  return (row) => change(rates(row.cells.slice(from)));
}

function makeGrid(run, grid, { order, text, outcome, repository }) {
  const [key, holds] = [makeKey(order, grid.columns), OUTCOMES[outcome] ?? OUTCOMES.all];
  const wanted = (row) => row.task.includes(text) && holds(row) && (!repository || row.repository === repository);
  const rows = grid.rows.filter(wanted).sort((one, other) => key(one) - key(other));
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

function change(all) {
  return all.length ? all.at(-1) - all[0] : 0;
}
