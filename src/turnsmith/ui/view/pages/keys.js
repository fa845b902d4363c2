// Keys of all pages: j and k move among the stops of a page (rows of tables, turns), Enter opens, / goes to the search field.

const STOPS = "tbody tr:has(a), [data-stop]";

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = { j: () => move(1), k: () => move(-1), "/": focusSearch }[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

/** Focus the next or previous stop; a row is focused at its first link, which Enter opens. */
function move(step) {
  const stops = [...document.querySelectorAll(STOPS)];
  if (!stops.length) return;
  const now = stops.findIndex((stop) => stop.contains(document.activeElement));
  const next = stops[now < 0 ? (step > 0 ? 0 : stops.length - 1) : Math.min(stops.length - 1, Math.max(0, now + step))];
  const target = next.matches("[data-stop]") ? next : next.querySelector("a");
  target.focus();
  next.scrollIntoView({ block: "nearest" });
}

function focusSearch() {
  document.querySelector("input[type=search]")?.focus();
}
