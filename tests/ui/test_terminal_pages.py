"""Pages of runs in a terminal, by textual's pilot: filters, keys, search, following a run, and hostile texts."""

import html
import re

import pytest
from textual.widgets import DataTable

from conftest import HOSTILE, make_trajectory
from turnsmith.runs.folder import write_json
from turnsmith.runs.journal import append_trajectory, arrays_file
from turnsmith.types import Outcome
from turnsmith.ui import terminal_pages
from turnsmith.ui.terminal_pages import TerminalPages
from turnsmith.ui.view.opened import find_runs

LONG = "".join(f"line {number}\n" for number in range(60)) + "Found [red]it[/red]\n" + "more\n" * 60
"""Observation that is longer than the screen."""


@pytest.fixture
def run(run_folder):
    """Return a run with three trajectories in one journal."""
    for journal in run_folder.journals():
        journal.unlink()
        arrays_file(journal).unlink()
    journal = run_folder.eval_trajectories("base", "practice")
    append_trajectory(journal, make_trajectory("eval-base/a-1/0"))
    append_trajectory(journal, make_trajectory("eval-base/b-1/0", Outcome.UNRESOLVED))
    append_trajectory(journal, make_trajectory("eval-base/c-1/0", Outcome.UNRESOLVED, observation=LONG))
    return run_folder


class Screens:
    """Pages of a run in a terminal of 100 × 30 characters, operated by keys."""

    def __init__(self, pages, pilot):
        self.pages, self.pilot = pages, pilot

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self):
        await self.pages.workers.wait_for_complete()
        await self.pilot.pause()

    @property
    def ids(self):
        table = self.pages.screen.query_one(DataTable)
        return [table.get_row(key)[0].plain for key in table.rows]

    @property
    def text(self):
        """Text on the screen, as a person sees it; spaces and line ends as one space."""
        parts = re.findall(r"<text[^>]*>([^<]*)</text>", self.pages.export_screenshot())
        return " ".join(html.unescape(" ".join(parts)).split())


@pytest.fixture
async def screens(run):
    pages = TerminalPages(find_runs(run.path))
    async with pages.run_test(size=(100, 30), notifications=True) as pilot:
        shown = Screens(pages, pilot)
        await shown.settle()
        yield shown


async def test_the_list_is_filtered_by_text(screens):
    assert screens.ids == ["eval-base/a-1/0", "eval-base/b-1/0", "eval-base/c-1/0"]
    await screens.press("slash", *"B-", "enter")
    assert screens.ids == ["eval-base/b-1/0"] and "1 of 3 trajectories" in screens.text
    await screens.press("escape")
    assert len(screens.ids) == 3


async def test_the_list_is_filtered_by_the_outcomes_that_occur(screens):
    await screens.press("o")
    assert screens.ids == ["eval-base/a-1/0"] and "outcome resolved" in screens.text
    await screens.press("o")
    assert screens.ids == ["eval-base/b-1/0", "eval-base/c-1/0"]
    await screens.press("o")
    assert len(screens.ids) == 3


async def test_a_trajectory_is_opened_turn_by_turn_with_patch_and_tests(screens):
    await screens.press("j", "enter")
    assert "eval-base/b-1/0 unresolved" in screens.text
    seen = []
    for _ in range(6):
        await screens.press("j")
        seen.append(screens.text)
    for part in ("turn 1 ", "turn 2 ", "diff --git a/x.py b/x.py", "failed: tests/test_x.py::test_b"):
        assert any(part in text for text in seen)
    await screens.press("escape")
    assert len(screens.ids) == 3


async def test_j_and_k_scroll_from_turn_to_turn(screens):
    await screens.press("j", "j", "enter")
    tops = []
    for key in "jjjkk":
        await screens.press(key)
        tops.append(screens.pages.screen.page.scroll_y)
    assert tops[0] < tops[1] < tops[2] and tops[3:] == [tops[1], tops[0]]


async def test_a_search_scrolls_to_each_line_that_contains_the_text(screens):
    await screens.press("j", "j", "enter")
    assert "Found" not in screens.text
    await screens.press("slash", *"found [RED]it", "enter")
    assert screens.text.startswith("TerminalPages Found [red]it")
    await screens.press("slash", *"line 5", "enter")
    assert screens.text.startswith("TerminalPages line 5 ")
    await screens.press("n")
    assert screens.text.startswith("TerminalPages line 5 0 ")
    await screens.press("p", "p")
    assert screens.text.startswith("TerminalPages line 5 9 ")
    await screens.press("slash", *"nowhere", "enter")
    assert "not found: nowhere" in screens.text


async def test_rows_that_a_running_run_appends_are_shown_and_the_cursor_stays(screens, run):
    await screens.press("j")
    append_trajectory(run.eval_trajectories("base", "package"), make_trajectory("eval-base/z-1/0"))
    await screens.press("r")
    assert screens.ids[0] == "eval-base/z-1/0" and len(screens.ids) == 4
    assert screens.pages.screen.table.cursor_row == 2


async def test_a_run_is_followed_without_a_key(run, monkeypatch):
    monkeypatch.setattr(terminal_pages, "INTERVAL_S", 0.01)
    async with (pages := TerminalPages(find_runs(run.path))).run_test() as pilot:
        screens = Screens(pages, pilot)
        append_trajectory(run.eval_trajectories("base", "practice"), make_trajectory("eval-base/z-1/0"))
        while len(screens.ids) < 4:  # the test's time limit ends it
            await pilot.pause()


async def test_a_long_list_is_shown_in_parts(screens, monkeypatch):
    monkeypatch.setattr(terminal_pages, "PAGE_SIZE", 2)
    await screens.press("r", "n")
    assert screens.ids == ["eval-base/c-1/0"] and "from 3" in screens.text
    await screens.press("n", "p")
    assert len(screens.ids) == 2


async def test_hostile_texts_are_shown_as_visible_characters(run):
    journal = run.eval_trajectories("base", "practice")
    made = make_trajectory(f"eval-base/{HOSTILE}/0", Outcome.UNRESOLVED, observation=HOSTILE)
    turn = made.turns[0].model_copy(update={"text": HOSTILE, "format_error": HOSTILE})
    append_trajectory(journal, made.grow(turns=[turn], patch=HOSTILE, detail=HOSTILE))
    async with (pages := TerminalPages(find_runs(run.path))).run_test(size=(200, 60)) as pilot:
        screens = Screens(pages, pilot)
        await screens.settle()
        safe = r"\x1b[2J\x1b]0;owned\x07[bold red]not markup[/] :boom: \u202e end"
        assert safe in screens.text
        await screens.press("end", "j", "j", "j", "enter")
        shown = screens.text
        await screens.press("end")
        assert (shown + screens.text).count(safe) >= 5
        await screens.press("slash", *"[bold", "enter")
        strips = [strip for widget in pages.screen.walk_children() for strip in widget.render_lines(widget.size.region)]
        assert not re.search(r"[\x00-\x1f\u202e]", "".join(strip.text for strip in strips))


async def test_several_runs_are_listed_and_opened(run, tmp_path):
    write_json(tmp_path / "bad" / "config.json", {"stages": 3})
    async with (pages := TerminalPages(find_runs(tmp_path))).run_test(size=(160, 30)) as pilot:
        screens = Screens(pages, pilot)
        await screens.settle()
        assert screens.ids == ["bad", "run"] and "unreadable" in screens.text and "14.5%" in screens.text
        await screens.press("j", "enter")
        assert len(screens.ids) == 3
        await screens.press("escape", "escape")
        assert screens.ids == ["bad", "run"]
        await screens.press("k", "enter")
        await screens.press("q")
    assert pages.return_code == 0


async def test_a_damaged_trajectory_is_reported_and_the_list_stays(screens, run):
    journal = run.eval_trajectories("base", "practice")
    arrays_file(journal).write_bytes(b"")
    await screens.press("enter")
    assert len(screens.ids) == 3 and "put back a copy" in " ".join(screens.text.replace("▌", " ").split())
