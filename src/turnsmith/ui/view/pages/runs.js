// Page: list of runs.

import { make, makeAddress, makeTable, toPercent } from "./dom.js";
import { fetchData } from "./data.js";

export async function showRuns() {
  const { data, tag } = await fetchData();
  return { tag, nodes: () => [make("h1", {}, "Runs"), makeTable(COLUMNS, data)] };
}

const COLUMNS = [
  { title: "run", cell: (run) => make("a", { href: makeAddress("run", run.name) }, run.name) },
  { title: "state", cell: (run) => run.error ?? run.state },
  { title: "latest", cell: ({ latest }) => (latest ? `${latest.stage} on ${latest.task_set}` : "") },
  { title: "Pass@1", isNumber: true, cell: ({ latest }) => toPercent(latest?.pass_at_1) },
  { title: "progress", cell: (run) => (run.state === "running" ? run.message : "") },
];
