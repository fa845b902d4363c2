// Page: attempts at one task side by side, and the difference between two of them.

import { compareLines } from "./difference.js";
import { make, makeAddress, makeLines, makeTable, toSigned, namePart } from "./dom.js";
import { fetchData } from "./data.js";

export async function showGroup(run, journal, task, one = "", other = "") {
  const { data: attempts, tag } = await fetchData(run, "group", { journal, task });
  const compared = one && other ? await Promise.all([one, other].map((start) => fetchData(run, "trajectories", journal, start))) : null;
  const group = { journal, task, attempts };
  return { tag, nodes: () => makeNodes(run, group, one, other, compared?.map(({ data }) => data)) };
}

function makeNodes(run, group, one, other, compared) {
  return [
    make("h1", {}, group.task),
    make("p", { class: "faint" }, `${group.attempts.length} attempts: ${namePart(group.journal)}`),
    makeTable(columns(run, group), group.attempts),
    ...(group.attempts.length > 1 ? [makeForm(run, group, one, other)] : []),
    ...(compared ? makeDifference(...compared) : []),
  ];
}

function columns(run, group) {
  const number = (title, cell) => ({ title, isNumber: true, cell });
  const all = [
    { title: "attempt", cell: (row) => make("a", { href: makeAddress("trajectory", run, group.journal, row.start) }, `attempt ${row.index}`) },
    { title: "outcome", cell: (row) => make("span", { class: row.outcome === "resolved" ? "resolved" : "bad" }, row.outcome) },
    { title: "end", cell: (row) => row.stop_reason },
    number("turns", (row) => row.turns),
    number("tokens", (row) => row.tokens),
    number("s", (row) => row.seconds.toFixed(1)),
  ];
  const rewards = [
    number("tests", (row) => row.tests),
    number("length penalty", (row) => toSigned(row.length)),
    number("reward", (row) => toSigned(row.reward)),
    number("advantage", (row) => (row.reward === null ? "" : row.advantage === null ? "not trained" : toSigned(row.advantage))),
  ];
  return group.attempts.some((row) => row.reward !== null) ? [...all, ...rewards] : all;
}

/** Make the form that chooses two attempts, and keeps the choice in the address. */
function makeForm(run, group, one, other) {
  const option = (row, chosen) => make("option", { value: row.start, ...(String(row.start) === chosen ? { selected: "" } : {}) }, `attempt ${row.index}, ${row.outcome}`);
  const select = (title, name, chosen) => make("label", {}, title, make("select", { name }, ...group.attempts.map((row) => option(row, chosen))));
  const [first, second] = choosePair(group.attempts).map((row) => String(row.start));
  const form = make("form", {}, select("compare", "one", one || first), select("with", "other", other || second), make("button", {}, "Compare"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = new FormData(form);
    location.hash = makeAddress("group", run, group.journal, group.task, values.get("one"), values.get("other"));
  });
  return form;
}

/** Choose the first resolved and the first other attempt, or the first two. */
function choosePair(attempts) {
  const pair = [attempts.find((row) => row.outcome === "resolved"), attempts.find((row) => row.outcome !== "resolved")];
  return pair.every(Boolean) ? pair : attempts.slice(0, 2);
}

function makeDifference(one, other) {
  const title = (trajectory, sign) => make("div", { class: sign === "-" ? "removed" : "added" }, `${sign} ${trajectory.trajectory_id}: ${trajectory.outcome}`);
  return [
    make("h2", {}, "Difference"),
    title(one, "-"),
    title(other, "+"),
    make("h3", {}, "Commands"),
    makeDifferingLines(listActions(one), listActions(other)),
    make("h3", {}, "Patch"),
    makeDifferingLines(one.patch.split("\n"), other.patch.split("\n")),
  ];
}

/** List the lines of all commands, or of the whole message if it has no command; the first line of each starts with `$ `. */
function listActions({ turns }) {
  return turns.flatMap((turn) => ("$ " + (turn.command ?? turn.text)).trimEnd().split("\n"));
}

function makeDifferingLines(one, other) {
  const lines = compareLines(one, other);
  if (!lines) return make("p", { class: "bad" }, "too long to compare: open both attempts");
  return lines.some((line) => line.trim()) ? makeLines({ class: "tall" }, lines) : make("p", { class: "faint" }, "both are empty");
}
