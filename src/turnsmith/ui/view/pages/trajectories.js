// Page: table of trajectories, with filters that are part of the address.

import { make, makeAddress, makeTable, namePart } from "./dom.js";
import { fetchData } from "./data.js";

export async function showTrajectories(run, journal = "", outcome = "", text = "", first = "0") {
  const { data, tag } = await fetchData(run, "trajectories", { journal, outcome, text, first });
  return { tag, nodes: () => makeNodes(run, { journal, outcome, text }, data) };
}

function makeNodes(run, choice, data) {
  const last = data.first + data.trajectories.length;
  const move = (title, first) => make("a", { href: makeAddress("trajectories", run, ...Object.values(choice), first) }, title);
  const range = data.total ? `${data.first + 1} to ${last} of ${data.total} ` : "none found ";
  return [
    make("h1", {}, "Trajectories"),
    makeForm(run, choice, data),
    make("p", {}, range, ...(data.first ? [move("first", 0), " "] : []), ...(last < data.total ? [move("next", last)] : [])),
    makeTable(columns(run), data.trajectories),
  ];
}

/** Make the form of the filters, which changes the address when it is sent. */
function makeForm(run, choice, { journals, outcomes }) {
  const select = (name, title, values, write) => {
    const options = ["", ...values].map((value) => make("option", { value, ...(value === choice[name] ? { selected: "" } : {}) }, value ? write(value) : "all"));
    return make("label", {}, title, make("select", { name }, ...options));
  };
  const text = make("label", {}, "text in the id", make("input", { type: "search", name: "text", value: choice.text, autocomplete: "off" }));
  const fields = [select("journal", "part of the run", journals, namePart), select("outcome", "outcome", outcomes, (name) => name.replaceAll("_", " ")), text];
  const form = make("form", {}, ...fields, make("button", {}, "Filter"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = new FormData(form);
    location.hash = makeAddress("trajectories", run, ...["journal", "outcome", "text"].map((name) => values.get(name)));
  });
  return form;
}

function columns(run) {
  const number = (title, write) => ({ title, isNumber: true, cell: write });
  return [
    { title: "trajectory", cell: (row) => make("a", { href: makeAddress("trajectory", run, row.journal, row.start) }, row.id) },
    { title: "outcome", cell: (row) => make("span", { class: row.outcome === "resolved" ? "resolved" : "" }, row.outcome) },
    { title: "end", cell: (row) => row.stop_reason },
    number("turns", (row) => row.turns),
    number("tokens", (row) => row.tokens),
    number("s", (row) => row.seconds.toFixed(1)),
  ];
}
