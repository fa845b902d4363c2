// Page: one trajectory, turn by turn.

import { make, makeTable } from "./dom.js";
import { fetchData } from "./main.js";

export async function showTrajectory(run, journal, start) {
  const { data, tag } = await fetchData(run, "trajectories", journal, start);
  return { tag, nodes: () => [...makeNodes(data), ...(data.form === "tokens" ? [makeColouring([run, "trajectories", `${journal}/${start}/tokens`])] : [])] };
}

function makeNodes(data) {
  const facts = [`ended by ${data.stop_reason}`, `${data.turns.length} turns`, `${data.duration_s.toFixed(1)} s`, data.detail];
  const statuses = Object.entries(data.grade?.statuses ?? {});
  return [
    make("h1", {}, data.trajectory_id, " ", make("span", { class: data.outcome === "resolved" ? "resolved" : "bad" }, data.outcome)),
    make("p", { class: "faint" }, facts.filter(Boolean).join(" · ")),
    fold("Prompt", data.prompt_text ?? data.prompt_error),
    ...(data.issue ? [fold("Issue", data.issue)] : []),
    ...data.turns.map(makeTurn),
    make("h2", {}, "Patch"),
    data.patch ? makePatch(data.patch) : make("p", { class: "faint" }, "no changes"),
    make("h2", {}, "Tests"),
    makeTable([{ title: "test", cell: ([test]) => test }, { title: "status", cell: ([, status]) => status }], statuses),
  ];
}

function fold(title, text) {
  return make("details", {}, make("summary", {}, title), make("pre", {}, text));
}

function makeTurn(turn, position) {
  const facts = [`turn ${position + 1}`, `${turn.end - turn.start} tokens`, `${turn.generate_s.toFixed(1)} s + ${turn.act_s.toFixed(1)} s`];
  if (turn.format_error) facts.push(`format error: ${turn.format_error}`);
  if (turn.exit_code) facts.push(`exit code ${turn.exit_code}`);
  return make(
    "section",
    { class: "turn", id: `turn-${position + 1}` },
    make("div", { class: turn.format_error || turn.exit_code ? "bad" : "faint" }, facts.join(" · ")),
    make("pre", {}, turn.text),
    ...(turn.observation ? [make("pre", { class: "faint" }, turn.observation)] : []),
  );
}

/** Make a patch whose added and removed lines are coloured. */
function makePatch(patch) {
  const kind = (line) => (line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "");
  return make("pre", {}, ...patch.split("\n").map((line) => make("span", { class: kind(line) }, line + "\n")));
}

/** Make a button, at the lower edge of the window, that colours the sampled tokens by their log-probs. */
function makeColouring(address) {
  const button = make("button", { class: "floating" }, "Colour tokens by log-prob");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { data } = await fetchData(...address);
      data.forEach((tokens, position) => document.querySelector(`#turn-${position + 1} pre`).replaceChildren(...tokens.map(makeToken)));
      button.replaceWith(makeLegend());
    } catch (error) {
      button.replaceWith(make("p", { class: "floating bad", role: "alert" }, error.message));
    }
  });
  return button;
}

const PROBABILITIES = [0.9, 0.5, 0.1, 0.01];

/** Make a token, coloured by the range of its probability; its title has the log-prob. */
function makeToken([text, logprob]) {
  const range = PROBABILITIES.filter((limit) => Math.exp(logprob ?? -Infinity) < limit).length;
  return make("span", { class: `token-${range}`, title: `log-prob ${logprob?.toFixed(3) ?? "not finite"}` }, text);
}

function makeLegend() {
  const limits = ["above 0.9", "above 0.5", "above 0.1", "above 0.01", "0.01 or less"];
  return make("p", { class: "floating" }, "probability: ", ...limits.flatMap((limit, range) => [make("span", { class: `token-${range}` }, limit), " "]));
}
