"""Pages of runs in a terminal (`turnsmith view --terminal`): list of runs, list of trajectories, and one trajectory.

All texts are escaped by `ui.terminal` and passed as `rich.text.Text`, so none is read as markup. Nothing is written.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import ClassVar

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Input, Static

from turnsmith.errors import UsageError
from turnsmith.runs.journal import JournalEntry
from turnsmith.runs.summaries import TrajectorySummary
from turnsmith.types import Outcome
from turnsmith.ui.reading import find_state, read_prompt, read_results
from turnsmith.ui.terminal import to_line
from turnsmith.ui.trajectory import trajectory_parts
from turnsmith.ui.view.opened import OpenedRun

PAGE_SIZE = 500
"""Maximum number of rows in the list of trajectories; a table of textual needs 0.1 ms for each row."""
INTERVAL_S = 3.0
"""Seconds after which runs are read again."""
RUN_HEADINGS = ("run", "state", "last result")
HEADINGS = ("id", "outcome", "ended by", "turns", "tokens", "s")
OUTCOMES = ("", *Outcome)
"""Choices of the filter by outcome, in order; the first one selects all trajectories."""
Row = tuple[str, TrajectorySummary]
"""Journal, and the summary of a trajectory in it."""


def plain(text: object) -> Text:
    """Return a text as one line without control characters, which textual does not read as markup."""
    return Text(to_line(str(text)))


class SearchField(Input):
    """Field for a search, hidden until it is opened."""

    def on_mount(self) -> None:
        self.display = False

    def open(self) -> None:
        """Show and focus the field."""
        self.display = True
        self.focus()

    def close(self, next_focus: Widget) -> None:
        """Hide the field, and focus another widget. Its text stays."""
        self.display = False
        next_focus.focus()


class RowPage(Screen[None]):
    """Page with a line of text above a table, whose rows are read again at intervals."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "next"),
        Binding("k", "move(-1)", "previous"),
        Binding("r", "refresh_rows", "read again"),
        Binding("escape", "back", "back"),
    ]
    headings: ClassVar[tuple[str, ...]]

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield DataTable(cursor_type="row")
        yield SearchField(placeholder="text in the id")
        yield Footer()

    def on_mount(self) -> None:
        self.table.add_columns(*map(Text, self.headings))
        self.table.focus()
        self.action_refresh_rows()
        self.set_interval(INTERVAL_S, self.action_refresh_rows)

    @property
    def table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    def action_move(self, step: int) -> None:
        """Move the cursor of the table to another row."""
        self.table.move_cursor(row=self.table.cursor_row + step)

    def action_back(self) -> None:
        """Return to the page before; the first page stays."""
        if len(self.app.screen_stack) > 2:
            self.app.pop_screen()

    def action_refresh_rows(self) -> None:
        """Read the rows again."""
        raise NotImplementedError

    def write_head(self, text: str) -> bool:
        """Show a line of text above the rows. Return False on a page that is closing, which may have no widgets left."""
        heads = [*self.query("#head").results(Static)]
        for head in heads:
            head.update(plain(text))
        return bool(heads)

    def fill(self, head: str, rows: Iterable[tuple[str, tuple[object, ...]]]) -> None:
        """Show a line of text and rows, each with a key. The cursor stays at its key; other rows are drawn if they changed."""
        if not self.write_head(head):
            return
        found = {key: [*map(plain, cells)] for key, cells in rows}
        table, position = self.table, self.table.cursor_row
        shown = {str(key.value): table.get_row(key) for key in table.rows}
        if found == shown:
            return
        at = [*shown][position] if position < len(shown) else ""
        table.clear()
        for key, cells in found.items():
            table.add_row(*cells, key=key)
        table.move_cursor(row=[*found].index(at) if at in found else min(position, len(found) - 1))


class RunPage(RowPage):
    """List of runs with their state and last result."""

    headings = RUN_HEADINGS

    def __init__(self, runs: Mapping[str, OpenedRun]) -> None:
        super().__init__()
        self.runs = runs

    def action_refresh_rows(self) -> None:
        self.fill(f"{len(self.runs)} runs", ((name, describe_run(name, run)) for name, run in self.runs.items()))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        self.app.push_screen(TrajectoryList(self.runs[str(event.row_key.value)]))


def describe_run(name: str, run: OpenedRun) -> tuple[str, ...]:
    """Return the row of a run; for a run that cannot be read, with the reason."""
    try:
        results = read_results(run.folder)
        last = "{stage} on {task_set}: {pass_at_1:.1%}".format(**results[-1]) if results else ""
        return name, find_state(run.folder), last
    except UsageError as error:
        return name, "unreadable", str(error)


class TrajectoryList(RowPage):
    """List of a run's trajectories with filters by text and outcome, in parts of `PAGE_SIZE` rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "search", key_display="/"),
        Binding("o", "next_outcome", "outcome"),
        Binding("n", "turn_page(1)", "more"),
        Binding("p", "turn_page(-1)", "fewer"),
    ]
    headings = HEADINGS

    def __init__(self, run: OpenedRun) -> None:
        super().__init__()
        self.run, self.text, self.outcome, self.first = run, "", "", 0
        self.known: list[Row] = []

    def action_refresh_rows(self) -> None:
        """Read the rows again, unless a reading goes on."""
        if not self.workers:
            self.read()

    @work
    async def read(self) -> None:
        """Read what was appended to the journals, in a thread, and show it."""
        if not self.known:
            self.write_head(f"{self.run.name}: reading")
        self.known = await asyncio.to_thread(lambda: sorted(self.run.list_summaries(), key=itemgetter(0)))
        self.show_rows()

    def show_rows(self) -> None:
        """Show the part of the trajectories found that begins at `first`."""
        found = [row for row in self.known if self.is_wanted(row[1])]
        self.first = min(self.first, max(0, len(found) - 1) // PAGE_SIZE * PAGE_SIZE)
        part = found[self.first : self.first + PAGE_SIZE]
        self.fill(" · ".join(self.describe(len(found))), ((name_row(row), describe_row(row[1])) for row in part))

    def is_wanted(self, summary: TrajectorySummary) -> bool:
        """Return True if a trajectory passes both filters; upper and lower case count as equal."""
        return self.outcome in ("", summary.outcome) and self.text.lower() in summary.trajectory_id.lower()

    def describe(self, num_found: int) -> Iterator[str]:
        """Yield the parts of the head line: run, filters, and number of trajectories."""
        yield self.run.name
        yield f"{num_found} of {len(self.known)} trajectories"
        if num_found > PAGE_SIZE:
            yield f"from {self.first + 1}"
        yield f"outcome {self.outcome or 'any'}"
        if self.text:
            yield f"id contains {self.text}"
        if faults := self.run.list_faults():
            yield f"{len(faults)} damaged lines"

    def action_next_outcome(self) -> None:
        """Select the next outcome that a trajectory has, or all after the last one."""
        present = ["", *(each for each in OUTCOMES if any(each == summary.outcome for _, summary in self.known))]
        after = present.index(self.outcome) + 1 if self.outcome in present else 0
        self.outcome, self.first = present[after % len(present)], 0
        self.show_rows()

    def action_turn_page(self, step: int) -> None:
        """Show the next or previous part of the trajectories."""
        self.first = max(0, self.first + step * PAGE_SIZE)
        self.show_rows()

    def action_search(self) -> None:
        """Open the search field."""
        self.query_one(SearchField).open()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.text, self.first = event.value, 0
        self.show_rows()

    def on_input_submitted(self) -> None:
        self.query_one(SearchField).close(self.table)

    def action_back(self) -> None:
        """Leave the search field; otherwise remove the filter by text; otherwise return to the page before."""
        field = self.query_one(SearchField)
        if field.display:
            field.close(self.table)
        elif self.text:
            field.value = ""
        else:
            super().action_back()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        journal, _, start = str(event.row_key.value).rpartition(" ")
        try:
            entry = self.run.read(journal, int(start))
        except UsageError as error:
            self.notify(to_line(str(error)), markup=False, severity="error")
        else:
            self.app.push_screen(TrajectoryPage(self.run, entry))


def name_row(row: Row) -> str:
    """Name a row by journal and byte offset, which do not change while a run goes on."""
    return f"{row[0]} {row[1].start}"


def describe_row(summary: TrajectorySummary) -> tuple[object, ...]:
    """Return the cells of a trajectory in the table."""
    tokens = "" if summary.num_tokens is None else summary.num_tokens
    seconds = f"{summary.duration_s:.1f}"
    return summary.trajectory_id, summary.outcome, summary.stop_reason, summary.num_turns, tokens, seconds


class Passage(Static):
    """Heading or text of a trajectory, in which a search marks what it finds."""

    def __init__(self, text: Text, indent: int, *, is_heading: bool) -> None:
        super().__init__(text, classes="heading" if is_heading else "")
        self.text = text
        self.styles.padding = (0, 0, 0, indent)

    def mark(self, wanted: str) -> None:
        """Mark a text wherever the passage contains it."""
        marked = self.text.copy()
        if wanted:
            marked.highlight_words([wanted], "reverse", case_sensitive=False)
        self.update(marked)

    def find_rows(self, wanted: str, console: Console) -> Iterator[int]:
        """Yield the row on the screen, from the top of the passage, of each line that contains a text."""
        width, row = max(1, self.content_size.width), 0
        for line in self.text.split("\n", allow_blank=True):
            at = line.plain.lower().find(wanted.lower())
            if at >= 0:
                yield row + max(0, len(line[:at].wrap(console, width)) - 1)
            row += max(1, len(line.wrap(console, width)))


def make_passage(part: RenderableType) -> Passage:
    """Make a passage of a part of a trajectory: a rule with a title, or an indented text."""
    indent = part.left if isinstance(part, Padding) else 0
    inner = part.renderable if isinstance(part, Padding) else part
    if isinstance(inner, Rule):
        return Passage(Text(str(inner.title)), 0, is_heading=True)
    text = inner.highlight(inner.code) if isinstance(inner, Syntax) else inner
    if not isinstance(text, Text):
        raise TypeError(f"a trajectory has a part of type {type(inner).__name__}")
    text.expand_tabs(8)
    return Passage(text, indent, is_heading=False)


class TrajectoryPage(Screen[None]):
    """One trajectory: prompt, issue, turns, patch, and verdict with tests."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "next turn"),
        Binding("k", "move(-1)", "previous turn"),
        Binding("slash", "search", "search", key_display="/"),
        Binding("n", "find(1)", "next match"),
        Binding("p", "find(-1)", "previous match"),
        Binding("escape", "back", "back"),
    ]

    def __init__(self, run: OpenedRun, entry: JournalEntry) -> None:
        super().__init__()
        self.run, self.entry = run, entry
        self.wanted = ""
        self.found: int | None = None
        """Number of the line found last, among all that contain the text."""

    def compose(self) -> ComposeResult:
        trajectory = self.entry.trajectory
        task = self.run.find_task(trajectory.instance_id)
        with VerticalScroll():
            yield from map(make_passage, trajectory_parts(trajectory, self.read_prompt(), task))
        yield SearchField(placeholder="text in the trajectory")
        yield Footer()

    def on_mount(self) -> None:
        self.page.focus()

    @property
    def page(self) -> VerticalScroll:
        return self.query_one(VerticalScroll)

    def read_prompt(self) -> str:
        """Read the prompt, or the reason why it cannot be read."""
        try:
            return read_prompt(self.run.folder, self.entry.trajectory)
        except UsageError as error:
            return str(error)

    def action_move(self, step: int) -> None:
        """Scroll to the next or previous heading; there is nothing to do after the last one."""
        rows = [passage.virtual_region.y for passage in self.query(Passage) if passage.has_class("heading")]
        top = self.page.scroll_target_y
        at = bisect_right(rows, top) if step > 0 else bisect_left(rows, top) - 1
        if 0 <= at < len(rows):
            self.scroll_to_row(rows[at])

    def action_find(self, step: int) -> None:
        """Scroll to the next or previous line that contains the text of the search; after the last one, to the first."""
        if not (rows := self.find_rows()):
            self.notify(to_line(f"not found: {self.wanted}"), markup=False)
        else:
            after = self.found + step if self.found is not None else bisect_left(rows, self.page.scroll_target_y)
            self.found = after % len(rows)
            self.scroll_to_row(rows[self.found])

    def find_rows(self) -> list[int]:
        """Find the row of each line that contains the text of the search; none without a text."""
        console = self.app.console
        return [
            passage.virtual_region.y + row
            for passage in (self.query(Passage) if self.wanted else ())
            for row in passage.find_rows(self.wanted, console)
        ]

    def scroll_to_row(self, row: int) -> None:
        """Scroll so that a row is the first one on the screen, or as far as the text allows."""
        self.page.scroll_to(y=row, animate=False, force=True)

    def action_search(self) -> None:
        """Open the search field."""
        self.query_one(SearchField).open()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.wanted, self.found = event.value, None
        self.query_one(SearchField).close(self.page)
        for passage in self.query(Passage):
            passage.mark(self.wanted)
        self.action_find(1)

    def action_back(self) -> None:
        """Leave the search field; otherwise return to the list."""
        field = self.query_one(SearchField)
        if field.display:
            field.close(self.page)
        else:
            self.app.pop_screen()


class TerminalPages(App[None]):
    """Application that shows runs in a terminal. A single run is shown without the list of runs."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit", "quit")]
    CSS = """
    DataTable { height: 1fr; }
    #head { background: $panel; height: 1; }
    .heading { background: $panel; margin-top: 1; }
    """

    def __init__(self, runs: Mapping[str, OpenedRun]) -> None:
        super().__init__()
        self.runs = runs

    def on_mount(self) -> None:
        [first, *others] = self.runs.values()
        self.push_screen(RunPage(self.runs) if others else TrajectoryList(first))
