// Page: overview of one run.

import { fetchData, findPicture } from "./data.js";
import { make, makeAddress, makeTable, namePart, toPercent, toSigned } from "./dom.js";

export async function showRun(name, other = "") {
  const [{ data, tag }, steps, running] = await Promise.all([fetchData(name), fetchData(name, "steps"), fetchData(name, "running")]);
  return { tag: tag + steps.tag + running.tag, nodes: () => makeNodes(name, other, data, steps.data, running.data, tag) };
}

function makeNodes(name, other, data, steps, running, tag) {
  const link = (title, page) => make("a", { href: makeAddress(page, name) }, title);
  return [
    make("h1", {}, name, " ", make("span", { class: "faint" }, data.state)),
    ...[data.stopped, ...data.alarms].filter(Boolean).map((text) => make("p", { class: "bad" }, text)),
    ...(data.state === "running" && data.message ? [make("p", { class: "faint" }, data.message)] : []),
    make("p", {}, link("Tasks", "tasks"), " · ", link("All trajectories", "trajectories")),
    ...(running.length ? [makeRunning(running)] : []),
    make("h2", {}, "Results"),
    makeTable(RESULTS, data.results.map((row) => ({ ...row, step: findStep(steps, row) }))),
    make("img", { src: findPicture(name, tag), alt: "Curves of the run; the tables have the same figures." }),
    make("h2", {}, "Iterations"),
    makeTable(ITERATIONS, data.iterations),
    ...PANELS.map((panel) => makePanel(panel, data.iterations)).filter(Boolean),
    makeLater("Trajectories", () => makeEpisodes(name)),
    makeLater("Configuration", () => makeConfiguration(name, other), other !== ""),
  ];
}

/** Make a folded list of the episodes that are running, and of those that wait for their grade. */
function makeRunning(running) {
  const columns = [
    { title: "episode", cell: (row) => row.id },
    { title: "started", cell: (row) => new Date(1000 * row.time).toLocaleTimeString() },
  ];
  return make("details", { open: "" }, make("summary", {}, `${running.length} running episodes`), makeTable(columns, running.slice(0, 50)));
}

function findStep(steps, row) {
  return steps.find((step) => step.task_set === row.task_set && step.after === row.stage);
}

function describeStep(step) {
  if (!step) return "";
  if (step.error) return step.error;
  const kind = step.verdict === "noise" ? "faint" : step.difference > 0 ? "resolved" : "bad";
  const [low, high] = step.interval_95 ?? [null, null];
  const interval = low === null ? "" : ` [${toSigned(100 * low, 1)}, ${toSigned(100 * high, 1)}]`;
  return make("span", { class: kind, title: `p = ${step.p_value?.toPrecision(2)}, ${step.num_tasks} tasks` }, `${step.verdict}: ${toSigned(100 * step.difference, 1)} points${interval}`);
}

const RESULTS = [
  { title: "task set", cell: (row) => row.task_set },
  { title: "stage", cell: (row) => row.stage },
  { title: "Pass@1", isNumber: true, cell: (row) => toPercent(row.pass_at_1) },
  { title: "± SEM", isNumber: true, cell: (row) => toPercent(row.sem) },
  { title: "against the stage before", cell: (row) => describeStep(row.step) },
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

const NAME = [
  { title: "stage", cell: (row) => row.stage },
  { title: "#", isNumber: true, cell: (row) => row.number + 1 },
];

const ITERATIONS = [
  ...NAME,
  metric("resolved", "rollouts/resolved_rate", toPercent),
  metric("turns", "rollouts/turns_mean", (value) => value.toFixed(1)),
  metric("entropy", "loss/entropy", (value) => value.toFixed(3)),
  metric("log-prob gap", "logprob_gap/mean", (value) => value.toExponential(1)),
  metric("collecting, s", "time/collect_s", (value) => value.toFixed(0)),
  metric("training, s", "time/train_s", (value) => value.toFixed(0)),
];

/** Groups of metrics: title, beginnings of their names, and whether the page shows them unfolded. */
const PANELS = [
  { title: "Funnel: from sampled trajectories to the loss", names: ["rollouts/collected", "rollouts/kept", "groups/", "samples/", "optimizer/steps", "tokens/trained", "tokens/in_loss"], open: true },
  { title: "Outcomes", names: ["outcome/"] },
  { title: "Reasons why trajectories ended", names: ["stop_reason/"] },
  { title: "Time by phase", names: ["time/"] },
  { title: "Gap of sampler and trainer", names: ["logprob_gap/", "sampler/", "is/"] },
  { title: "Audit of patches", names: ["audit/", "contact/"] },
  { title: "Loss and optimizer", names: ["loss/", "optimizer/"] },
];

/** Make a table of the metrics of one group by iteration; null if the run has none. */
function makePanel({ title, names, open }, iterations) {
  const all = [...new Set(iterations.flatMap(({ metrics }) => Object.keys(metrics)))];
  const found = names.flatMap((start) => all.filter((name) => name === start || (start.endsWith("/") && name.startsWith(start))));
  if (!found.length) return null;
  const rows = iterations.filter(({ metrics }) => found.some((name) => name in metrics));
  const isMixed = new Set(found.map((name) => name.split("/")[0])).size > 1;
  const columns = found.map((name) => metric(nameMetric(name, isMixed), name, toShort));
  return make("details", open ? { open: "" } : {}, make("summary", {}, title), makeTable([...NAME, ...columns], rows));
}

/** Name a metric as a heading: `groups/with_signal` is `groups: with signal`, or `with signal` in a table of groups only. */
function nameMetric(name, isMixed) {
  const [kind, ...rest] = name.replace(/^is\//, "importance ratio/").replaceAll("_", " ").split("/");
  return isMixed ? `${kind}: ${rest.join(" ")}` : rest.join(" ");
}

function toShort(value) {
  if (Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 0.01 ? value.toFixed(3) : value.toExponential(1);
}

/** Make a folded part whose data are fetched when it is opened. */
function makeLater(title, load, open = false) {
  const part = make("details", {}, make("summary", {}, title));
  part.addEventListener("toggle", async () => {
    if (part.childElementCount > 1) return;
    part.append(make("p", { class: "faint" }, "loading"));
    const nodes = await load().catch((error) => [make("p", { class: "bad", role: "alert" }, error.message)]);
    part.lastChild.replaceWith(...nodes);
  });
  part.open = open;
  return part;
}

async function makeEpisodes(run) {
  const { data } = await fetchData(run, "episodes");
  const histograms = Object.entries(data.histograms).map(([name, histogram]) => makeHistogram(name, histogram));
  return [
    ...data.faults.map((fault) => make("p", { class: "bad" }, fault)),
    make("div", { class: "row" }, ...histograms),
    makeTable(outcomeColumns(run, data.outcomes), Object.entries(data.outcomes)),
  ];
}

/** Make a histogram of bars, whose titles name interval and count. */
function makeHistogram(name, { counts, edges }) {
  const most = Math.max(...counts, 1);
  const bars = counts.map((count, at) => {
    const bar = make("div", { title: `${toShort(edges[at])} to ${toShort(edges[at + 1])} ${name}: ${count}` });
    bar.style.height = `${(100 * count) / most}%`;
    return bar;
  });
  const ends = counts.length ? `${toShort(edges[0])} to ${toShort(edges.at(-1))}` : "none";
  return make("figure", {}, make("div", { class: "bars", role: "img", "aria-label": `histogram of ${name}` }, ...bars), make("figcaption", {}, `${name}: ${ends}`));
}

/** Make one column for each outcome of the run; a number links to these trajectories. */
function outcomeColumns(run, outcomes) {
  const names = [...new Set(Object.values(outcomes).flatMap(Object.keys))].sort();
  const link = (journal, outcome, count) => make("a", { href: makeAddress("trajectories", run, journal, outcome) }, count);
  return [
    { title: "part of the run", cell: ([journal]) => make("a", { href: makeAddress("trajectories", run, journal) }, namePart(journal)) },
    ...names.map((name) => ({
      title: name.replaceAll("_", " "),
      isNumber: true,
      cell: ([journal, counts]) => (counts[name] ? link(journal, name, counts[name]) : ""),
    })),
  ];
}

async function makeConfiguration(run, other) {
  const [{ data }, { data: runs }] = await Promise.all([fetchData(run, "configuration", ...(other ? [{ other }] : [])), fetchData()]);
  const rows = data.is_compared ? data.rows.filter(([, own, their]) => JSON.stringify(own) !== JSON.stringify(their)) : data.rows;
  const value = (title, at) => ({ title, cell: (row) => (row[at] === null ? "" : JSON.stringify(row[at])) });
  const columns = [{ title: "key", cell: ([key]) => key }, value(run, 1), ...(data.is_compared ? [value(other, 2)] : [])];
  const links = runs.filter(({ name }) => name !== run).flatMap(({ name }) => [make("a", { href: makeAddress("run", run, name) }, name), " "]);
  return [...(links.length ? [make("p", {}, "Difference from ", ...links)] : []), rows.length ? makeTable(columns, rows) : make("p", {}, "The configurations are equal.")];
}
