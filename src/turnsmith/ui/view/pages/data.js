// Data of the pages: from the server or, in a report, from the report's own compressed blocks.

const PAGE_SIZE = 200;
const element = document.getElementById("store");
const store = element && JSON.parse(element.textContent);
let main = null;
let latest = { number: -1, answers: null };

/** Fetch JSON data, e.g. `fetchData(run, "group", { journal, task })`. Throws an Error with one sentence. */
export function fetchData(...parts) {
  return store ? readReport(...parts) : askServer(...parts);
}

/** Ask the server; the browser revalidates its copy by ETag. */
async function askServer(...parts) {
  const path = parts.map((part) => (typeof part === "string" ? part.split("/").map(encodeURIComponent).join("/") : "?" + new URLSearchParams(part)));
  const answer = await fetch("api/runs" + path.map((part) => (part.startsWith("?") ? part : "/" + part)).join(""));
  const text = await answer.text();
  if (!answer.ok) throw new Error(answer.headers.get("content-type")?.includes("json") ? JSON.parse(text).error : text);
  return { data: JSON.parse(text), tag: answer.headers.get("etag") };
}

export const isReport = Boolean(store);

/** Send JSON data to the server; return its answer. Throws an Error with the server's sentence. */
export async function postData(run, kind, body) {
  const address = `api/runs/${encodeURIComponent(run)}/${kind}`;
  const answer = await fetch(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

/** Return the address of the picture of a run's curves; the tag makes the browser fetch a new one. */
export function findPicture(run, tag) {
  return store ? `data:image/svg+xml;base64,${main.curves}` : `api/runs/${encodeURIComponent(run)}/curves.svg?${encodeURIComponent(tag)}`;
}

/** Answer from the report as the server would. */
async function readReport(run, kind = "run", ...rest) {
  main ??= JSON.parse(await inflate(fromBase64(store.main)));
  const name = run === undefined ? "" : kind;
  if (name in main.answers) return { data: main.answers[name], tag: name };
  if (name === "group") return { data: findGroup(rest[0]), tag: name };
  if (typeof rest[0] === "object") return { data: filterRows(rest[0]), tag: name };
  return { data: await readBlock(rest.join("/")), tag: name };
}

function findGroup({ journal, task }) {
  return main.rows.filter((row) => row.journal === journal && row.task === task).sort((one, other) => one.index - other.index);
}

function filterRows({ journal, outcome, text, first }) {
  const found = main.rows.filter((row) => (!journal || row.journal === journal) && (!outcome || row.outcome === outcome) && row.id.includes(text));
  const list = (name) => [...new Set(main.rows.map((row) => row[name]))];
  return { total: found.length, first: Number(first), journals: list("journal"), outcomes: list("outcome").sort(), trajectories: found.slice(Number(first), Number(first) + PAGE_SIZE) };
}

/** Read one trajectory, named by journal and position, from its block. Throws an Error if the report lacks it. */
async function readBlock(name) {
  if (name.endsWith("/tokens")) throw new Error("A report has no tokens: use turnsmith view.");
  if (name in main.faults) throw new Error(main.faults[name]);
  const [number, position] = main.places[name] ?? [];
  if (number === undefined) throw new Error("This trajectory is not in the report, whose size is limited: use turnsmith view.");
  if (latest.number !== number) latest = { number, answers: JSON.parse(await inflate(await loadBlock(number))) };
  return latest.answers[position];
}

async function loadBlock(number) {
  if (Array.isArray(store.blocks)) return fromBase64(store.blocks[number]);
  return new Uint8Array(await (await fetch(`blocks/${number}.deflate`)).arrayBuffer());
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function inflate(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}
