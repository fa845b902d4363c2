// Elements of the pages. All texts are set as text, so HTML in them stays visible text.

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Make control characters and marks of writing direction visible, e.g. `\u001b`. */
export function toPrintable(text) {
  return text.replace(CONTROL, (mark) => "\\u" + mark.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** Make an element with attributes and children; a child is a node, or a value that becomes text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map((child) => (child instanceof Node ? child : toPrintable(String(child ?? "")))));
  return element;
}

/** Make a table; each column has `title`, `cell` (function of a row) and `isNumber`. */
export function makeTable(columns, rows) {
  const kind = (column) => (column.isNumber ? { class: "number" } : {});
  const head = make("tr", {}, ...columns.map((column) => make("th", { scope: "col", ...kind(column) }, column.title)));
  const body = rows.map((row) => make("tr", {}, ...columns.map((column) => make("td", kind(column), column.cell(row)))));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

/** Make the address of a page from its parts. */
export function makeAddress(...parts) {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

export function toPercent(share) {
  return share === null || share === undefined ? "" : (100 * share).toFixed(1) + " %";
}

export function toSigned(value, digits = 2) {
  return value === null || value === undefined ? "" : (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
}

/** Name a part of the run: `evals/base/practice` is `base on practice`, `stages/rl/iteration-0002` is `rl, iteration 3`. */
export function namePart(journal) {
  const [kind, stage, name] = journal.split("/");
  if (kind === "evals") return `${stage} on ${name}`;
  return kind === "stages" ? `${stage}, iteration ${Number(name.split("-")[1]) + 1}` : journal;
}

const PART = 100_000;

/** Make preformatted text. A button shows the next part of a text that is longer than `PART` characters. */
export function makeText(attributes, text) {
  return makeParts(attributes, [...Array(Math.ceil(text.length / PART) || 1).keys()].map((at) => text.slice(at * PART, (at + 1) * PART)));
}

/** Make preformatted lines of a difference or patch, coloured by their signs `+` and `-`. */
export function makeLines(attributes, lines) {
  const kind = (line) => (line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "");
  const parts = lines.flatMap((line) => Array.from({ length: Math.ceil(line.length / PART) || 1 }, (_, at) => [kind(line), line.slice(at * PART, (at + 1) * PART)]));
  return makeParts(attributes, parts.map(([sign, part]) => make("span", { class: sign }, part + "\n")));
}

function makeParts(attributes, parts) {
  const block = make("pre", attributes);
  const more = make("button", { type: "button" });
  let at = 0;
  const grow = () => {
    more.remove();
    for (let size = 0; at < parts.length && size < PART; at++) {
      block.append(parts[at] instanceof Node ? parts[at] : toPrintable(parts[at]));
      size += parts[at].textContent?.length ?? PART;
    }
    more.textContent = `Show more, part ${at + 1} of ${parts.length}`;
    if (at < parts.length) block.append(more);
  };
  more.addEventListener("click", grow);
  grow();
  return block;
}
