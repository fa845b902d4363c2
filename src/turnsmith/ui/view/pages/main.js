// Routes: the part of the address after `#` names the page, so every view has a stable link.

import { make, makeAddress } from "./dom.js";
import { fetchData, isReport } from "./data.js";
import "./keys.js";
import { showGroup } from "./group.js";
import { showRun } from "./run.js";
import { showRuns } from "./runs.js";
import { showTasks } from "./tasks.js";
import { showTrajectories } from "./trajectories.js";
import { showTrajectory } from "./trajectory.js";

const REFRESH_MS = 5000;
const page = document.getElementById("page");
let shown = null;
let turn = 0;

const PAGES = { "": showRuns, run: showRun, tasks: showTasks, group: showGroup, trajectories: showTrajectories, trajectory: showTrajectory };

/** Show the page that the address names. Data that did not change leave the page as it is. */
async function show() {
  const own = ++turn;
  const address = location.hash;
  const [kind = "", ...parts] = address.slice(2).split("/").map(decodeURIComponent);
  try {
    const { tag, nodes } = await (PAGES[kind] ?? showRuns)(...parts);
    const key = address + tag;
    if (own !== turn || key === shown) return;
    shown = key;
    replace(nodes());
  } catch (error) {
    if (own !== turn) return;
    shown = null;
    page.replaceChildren(make("p", { role: "alert", class: "bad" }, error.message));
  }
  showPath(kind, parts);
}

/** Replace the page. At the same address, folds that were open stay open; a page to which one goes back keeps its place. */
function replace(nodes) {
  const same = page.dataset.address === location.hash;
  const opened = new Set(same ? [...page.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent) : []);
  page.replaceChildren(...nodes);
  page.dataset.address = location.hash;
  if (!same) scrollTo(0, history.state?.top ?? 0);
  for (const fold of page.querySelectorAll("details")) if (opened.has(fold.firstChild.textContent)) fold.open = true;
}

/** Show the links to the pages above this one. */
function showPath(kind, [run]) {
  const links = [make("a", { href: "#/" }, "runs")];
  if (run) links.push(" / ", make("a", { href: makeAddress("run", run) }, run));
  if (kind === "trajectory" || kind === "trajectories") links.push(" / ", make("a", { href: makeAddress("trajectories", run) }, "trajectories"));
  if (kind === "tasks" || kind === "group") links.push(" / ", make("a", { href: makeAddress("tasks", run) }, "tasks"));
  document.getElementById("path").replaceChildren(...links);
  document.title = [kind === "" ? "runs" : kind, run, "Turnsmith"].filter(Boolean).join(" · ");
}

/** Show the page again at an interval, unless it is hidden or somebody fills in a form. */
function follow() {
  if (!document.hidden && !document.activeElement?.form) show();
}

addEventListener("hashchange", () => show().then(() => page.focus({ preventScroll: true })));
addEventListener("scrollend", () => history.replaceState({ top: scrollY }, ""));
history.scrollRestoration = "manual";
setInterval(follow, REFRESH_MS);
if (isReport && !location.hash) openRun();
else show();

/** Open the overview of the only run of a report. */
async function openRun() {
  const { data } = await fetchData();
  location.replace(makeAddress("run", data[0].name));
}
