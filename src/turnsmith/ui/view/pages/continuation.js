// Form that continues an episode from one of its turns, and shows the new verdict beside the old one.

import { postData } from "./data.js";
import { make, makeLines, makeTable, makeText } from "./dom.js";

/** Make a folded form for a turn, which is filled when it is opened; `place` has run, journal and start. */
export function makeContinuation(place, data, position, makeTurn) {
  const part = make("details", { class: "continuation" }, make("summary", {}, "Continue from here"));
  part.addEventListener("toggle", () => part.append(...makeForm(place, data, position, makeTurn)), { once: true });
  return part;
}

function makeForm(place, data, position, makeTurn) {
  const message = make("textarea", { name: "message", rows: "6" });
  message.value = data.turns[position].text;
  const further = make("textarea", { name: "further", rows: "2" });
  const policy = make("input", { type: "checkbox", name: "policy" });
  const run = make("button", {}, "Run in a new sandbox");
  const result = make("div", { "aria-live": "polite" });
  const form = make(
    "form",
    { class: "column" },
    make("label", {}, `message instead of turn ${position + 1}`, message),
    make("label", {}, "further commands, one per line", further),
    make("label", { class: "inline" }, policy, " the policy continues after them"),
    run,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    run.disabled = true;
    result.replaceChildren(make("p", { class: "faint" }, `replaying ${position} turns, then running`));
    const messages = [message.value, ...further.value.split("\n").filter((line) => line.trim()).map(toMessage)];
    const order = { journal: place.journal, start: Number(place.start), turn: position + 1, messages, by_policy: policy.checked };
    try {
      const made = await postData(place.run, "continue", order);
      result.replaceChildren(...makeResult(data, made, position, makeTurn));
    } catch (error) {
      result.replaceChildren(make("p", { class: "bad", role: "alert" }, error.message));
    }
    run.disabled = false;
  });
  return [form, result];
}

/** Write a message with one command, as the agent writes it. */
function toMessage(command) {
  return "```command\n" + command + "\n```";
}

function makeResult(old, made, position, makeTurn) {
  const verdict = (row) => make("span", { class: row.outcome === "resolved" ? "resolved" : "bad" }, row.outcome);
  const columns = [
    { title: "attempt", cell: (row) => (row === old ? "before" : "continued") },
    { title: "outcome", cell: verdict },
    { title: "end", cell: (row) => row.stop_reason },
    { title: "turns", isNumber: true, cell: (row) => row.turns.length },
    { title: "remark", cell: (row) => row.detail },
  ];
  return [
    makeTable(columns, [old, made]),
    ...made.turns.slice(position).map((turn, at) => makeTurn(turn, position + at, "new")),
    made.patch ? makeLines({ class: "tall" }, made.patch.split("\n")) : makeText({}, "no changes"),
  ];
}
