// Page: overview of one run.

import { make, makeAddress, makeTable, toPercent } from "./dom.js";
import { fetchData } from "./main.js";

export async function showRun(name) {
  const { data, tag } = await fetchData(name);
  return { tag, nodes: () => makeNodes(name, data, tag) };
}

function makeNodes(name, data, tag) {
  const source = `/api/runs/${encodeURIComponent(name)}/curves.svg?${encodeURIComponent(tag)}`;
  return [
    make("h1", {}, name, " ", make("span", { class: "faint" }, data.state)),
    ...[data.stopped, ...data.faults].filter(Boolean).map((text) => make("p", { class: "bad" }, text)),
    make(
      "p",
      {},
      make("a", { href: makeAddress("tasks", name) }, "Tasks"),
      " · ",
      make("a", { href: makeAddress("trajectories", name) }, "All trajectories"),
    ),
    make("img", { src: source, alt: "Curves of the run; the tables below have the same figures." }),
    make("h2", {}, "Results"),
    makeTable(RESULTS, data.results),
    make("h2", {}, "Iterations"),
    makeTable(ITERATIONS, data.iterations),
    make("h2", {}, "Outcomes"),
    makeTable(outcomeColumns(name, data.outcomes), Object.entries(data.outcomes)),
  ];
}

const RESULTS = [
  { title: "task set", cell: (row) => row.task_set },
  { title: "stage", cell: (row) => row.stage },
  { title: "Pass@1", isNumber: true, cell: (row) => toPercent(row.pass_at_1) },
  { title: "± SEM", isNumber: true, cell: (row) => toPercent(row.sem) },
  { title: "pass@k", isNumber: true, cell: (row) => toPercent(row.pass_at_k) },
  { title: "turns", isNumber: true, cell: (row) => row.mean_turns?.toFixed(1) },
  { title: "tasks", isNumber: true, cell: (row) => row.num_tasks },
  { title: "runs", isNumber: true, cell: (row) => row.num_runs },
];

const metric = (title, name, write) => ({
  title,
  isNumber: true,
  cell: ({ metrics }) => (Number.isFinite(metrics[name]) ? write(metrics[name]) : ""),
});

const ITERATIONS = [
  { title: "stage", cell: (row) => row.stage },
  { title: "#", isNumber: true, cell: (row) => row.number + 1 },
  metric("resolved", "rollouts/resolved_rate", toPercent),
  metric("turns", "rollouts/turns_mean", (value) => value.toFixed(1)),
  metric("groups", "groups/all", String),
  metric("with signal", "groups/with_signal", String),
  metric("entropy", "loss/entropy", (value) => value.toFixed(3)),
  metric("log-prob gap", "logprob_gap/mean", (value) => value.toExponential(1)),
  metric("collecting, s", "time/collect_s", (value) => value.toFixed(0)),
  metric("training, s", "time/train_s", (value) => value.toFixed(0)),
];

/** Make one column for each outcome of the run; a number links to these trajectories. */
function outcomeColumns(run, outcomes) {
  const names = [...new Set(Object.values(outcomes).flatMap(Object.keys))].sort();
  const link = (journal, outcome, count) => make("a", { href: makeAddress("trajectories", run, journal, outcome) }, count);
  return [
    { title: "part of the run", cell: ([journal]) => make("a", { href: makeAddress("trajectories", run, journal) }, journal) },
    ...names.map((name) => ({
      title: name.replaceAll("_", " "),
      isNumber: true,
      cell: ([journal, counts]) => (counts[name] ? link(journal, name, counts[name]) : ""),
    })),
  ];
}
