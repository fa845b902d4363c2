// Page: one trajectory, turn by turn. The browser lays out only the turns in view (content-visibility in style.css).

import { make, makeAddress, makeLines, makeTable, makeText, namePart } from "./dom.js";
import { COLOURINGS, makeLegend, makeToken } from "./colouring.js";
import { makeContinuation } from "./continuation.js";
import { fetchData, isReport } from "./data.js";

export async function showTrajectory(run, journal, start) {
  const { data, tag } = await fetchData(run, "trajectories", journal, start);
  return { tag, nodes: () => makeNodes(run, journal, start, data) };
}

function makeNodes(run, journal, start, data) {
  const facts = [namePart(journal), `ended: ${data.stop_reason}`, `${data.turns.length} turns`, `${data.duration_s.toFixed(1)} s`, data.detail];
  const statuses = Object.entries(data.grade?.statuses ?? {});
  const place = { run, journal, start };
  const turns = data.turns.map((turn, position) => makeTurn(turn, position, "turn"));
  if (!isReport) turns.forEach((turn, position) => turn.append(makeContinuation(place, data, position, makeTurn)));
  return [
    make("h1", {}, data.trajectory_id, " ", make("span", { class: data.outcome === "resolved" ? "resolved" : "bad" }, data.outcome)),
    make("p", { class: "faint" }, facts.filter(Boolean).join(" · ")),
    make("p", {}, make("a", { href: makeAddress("group", run, journal, data.instance_id) }, "Other attempts at this task")),
    makeTools(turns, data, [run, "trajectories", `${journal}/${start}/tokens`]),
    fold("Prompt", data.prompt_text ?? data.prompt_error),
    ...(data.issue ? [fold("Issue", data.issue)] : []),
    ...turns,
    make("h2", {}, "Patch"),
    data.patch ? makeLines({ class: "tall" }, data.patch.split("\n")) : make("p", { class: "faint" }, "no changes"),
    make("h2", {}, "Tests"),
    make("p", { class: "faint" }, describeGrade(data.grade)),
    makeTable([{ title: "test", cell: ([test]) => test }, { title: "status", cell: ([, status]) => make("span", { class: status === "passed" ? "resolved" : "bad" }, status) }], statuses),
  ];
}

/** Describe grading in one line: duration, signs of an attack, audit, and the grader's remark. */
function describeGrade(grade) {
  if (!grade) return "not graded";
  const audit = grade.audit && `audit: ${grade.audit.verdict} ${grade.audit.reason}`;
  return [`${grade.duration_s.toFixed(1)} s`, ...grade.flags, audit, grade.detail].filter(Boolean).join(" · ");
}

function fold(title, text) {
  return make("details", {}, make("summary", {}, title), makeText({}, text));
}

function makeTurn(turn, position, name) {
  const facts = [`turn ${position + 1}`, `${turn.end - turn.start} tokens sampled in ${turn.generate_s.toFixed(1)} s`, `command ran ${turn.act_s.toFixed(1)} s`];
  if (turn.format_error) facts.push(`format error: ${turn.format_error}`);
  if (turn.exit_code) facts.push(`exit code ${turn.exit_code}`);
  const failed = turn.format_error || turn.exit_code;
  return make(
    "section",
    { class: "turn", id: `${name}-${position + 1}`, tabindex: "-1", "data-stop": "", ...(failed ? { "data-failed": "" } : {}) },
    make("div", { class: failed ? "bad" : "faint" }, facts.join(" · ")),
    makeText({ class: "action" }, turn.text),
    ...(turn.observation ? [makeText({ class: "faint" }, turn.observation)] : []),
  );
}

/** Make the bar with search, jump to the first failing command, and choice of colours. */
function makeTools(turns, data, address) {
  const bar = make("form", { class: "tools", role: "search" }, makeSearch(turns));
  const failing = turns.find((turn) => "failed" in turn.dataset);
  const jump = make("button", { type: "button", ...(failing ? {} : { disabled: "" }) }, failing ? "First failing command" : "No command failed");
  jump.addEventListener("click", () => show(failing));
  bar.append(jump, ...(data.form === "tokens" ? [makeColouring(turns, address)] : []));
  bar.addEventListener("submit", (event) => event.preventDefault());
  return bar;
}

function show(turn) {
  turn.scrollIntoView();
  turn.focus({ preventScroll: true });
}

/** Make the search field; Enter shows the next turn that contains the text. */
function makeSearch(turns) {
  const field = make("input", { type: "search", name: "search", autocomplete: "off" });
  const count = make("output", { class: "faint" });
  const find = () => turns.filter((turn) => field.value && turn.textContent.toLowerCase().includes(field.value.toLowerCase()));
  let at = -1;
  field.addEventListener("input", () => {
    at = -1;
    count.textContent = field.value ? `${find().length} turns` : "";
  });
  field.addEventListener("keydown", (event) => {
    const found = event.key === "Enter" ? find() : [];
    if (!found.length) return;
    event.preventDefault();
    at = (at + (event.shiftKey ? found.length - 1 : 1)) % found.length;
    count.textContent = `${at + 1} of ${found.length} turns`;
    found[at].scrollIntoView();
  });
  return make("label", {}, "search in turns ( / )", make("span", {}, field, " ", count));
}

/** Make the choice of token colours. Tokens are fetched once; a turn is coloured when it comes into view. */
function makeColouring(turns, address) {
  const select = make("select", { name: "colour" }, make("option", { value: "" }, "none"), ...Object.entries(COLOURINGS).map(([value, { title }]) => make("option", { value }, title)));
  const legend = make("span", { class: "legend", "aria-live": "polite" });
  let tokens = null;
  let watcher = null;
  select.addEventListener("change", async () => {
    try {
      watcher?.disconnect();
      tokens ??= (await fetchData(...address)).data;
      legend.replaceChildren(...(select.value ? makeLegend(select.value, tokens) : []));
      watcher = watch(turns, (turn, position) => paint(turn, tokens.turns[position], select.value, tokens.advantage));
    } catch (error) {
      legend.replaceChildren(make("span", { class: "bad", role: "alert" }, error.message));
    }
  });
  return make("label", {}, "colour tokens by", make("span", {}, select, " ", legend));
}

/** Call `paint` for each turn when it first comes into view. */
function watch(turns, paintTurn) {
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      watcher.unobserve(entry.target);
      paintTurn(entry.target, turns.indexOf(entry.target));
    }
  });
  turns.forEach((turn) => watcher.observe(turn));
  return watcher;
}

function paint(turn, tokens, colouring, advantage) {
  const text = turn.querySelector(".action");
  if (tokens) text.replaceChildren(...tokens.map((token) => makeToken(token, colouring, advantage)));
}
