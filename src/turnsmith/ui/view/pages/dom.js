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
