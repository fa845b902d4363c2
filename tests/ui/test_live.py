import io
import re

import pytest
from rich.console import Console

from turnsmith.tracking import Standing
from turnsmith.tracking.standings import to_duration
from turnsmith.ui.live import LINE_INTERVAL_S, Bars, Lines, RunBars, describe_left, watching


class Clock:
    """Plain lines with a clock that the test moves."""

    def __init__(self):
        self.now, self.console = 0.0, Console(file=io.StringIO(), width=200)
        self.bars = RunBars(self.console)
        self.bars.get_time = lambda: self.now
        self.lines = Lines(self.bars)

    @property
    def written(self):
        return self.console.file.getvalue().splitlines()


def test_plain_lines_are_throttled_and_the_end_is_always_shown():
    clock = Clock()
    with clock.lines.work("collecting", 200) as work:
        for _ in range(200):
            work.advance(note="resolved 3 of 9")
    assert clock.written == ["collecting: 200 of 200, resolved 3 of 9, took 0:00:00"]


def test_the_time_left_ignores_what_was_done_before_a_resume():
    clock = Clock()
    with clock.lines.work("collecting", 100, 90) as work:
        for num in (1, 4, 1):
            clock.now += LINE_INTERVAL_S
            work.advance(num)
        clock.now += 55
    assert clock.written == [
        "collecting: 91 of 100",
        "collecting: 95 of 100, 0:00:20 left",
        "collecting: 96 of 100, 0:00:20 left",
        "collecting: 96 of 100, took 0:01:25",
    ]


def test_the_time_left_ignores_two_short_episodes_that_end_first():
    """A stage of 64 episodes: two that end at once after 10 s, the others after a minute."""
    clock = Clock()
    with clock.lines.work("stage2", 64) as work:
        clock.now += LINE_INTERVAL_S
        for _ in range(2):
            work.advance()
        clock.now += 50
        for _ in range(6):
            work.advance()
        assert clock.written == ["stage2: 1 of 64", "stage2: 3 of 64"]
        clock.now += LINE_INTERVAL_S
        work.advance()
        assert clock.written[2:] == ["stage2: 9 of 64, 0:07:08 left"]


def test_the_time_left_counts_down_and_disappears_once_it_has_passed():
    clock = Clock()
    with clock.lines.work("scoring", 4) as work:
        clock.now += 30
        work.advance(3)
        [task] = clock.bars.tasks
        shown = []
        for _ in range(4):
            clock.now += 3
            shown.append(describe_left(task))
    assert shown == ["0:00:07 left", "0:00:04 left", "0:00:01 left", ""]


def test_work_of_unknown_length_shows_no_time_left():
    clock = Clock()
    with clock.lines.work("scoring again", None) as work:
        for _ in range(2):
            clock.now += LINE_INTERVAL_S
            work.advance()
    assert clock.written == ["scoring again: 1", "scoring again: 2", "scoring again: 2, took 0:00:20"]


def test_a_bar_ends_with_a_block_that_fails():
    clock = Clock()
    with pytest.raises(ZeroDivisionError), clock.lines.work("scoring", 4):
        1 / 0  # noqa: B018
    assert not clock.bars.tasks and not clock.written


@pytest.mark.parametrize(("total", "left"), [(None, ""), (4, "0:00:20 left")])
def test_a_bar_shows_the_time_left_only_if_it_can_be_estimated(total, left):
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    now = [0.0]
    shown = RunBars(console)
    shown.get_time = lambda: now[0]
    with Bars(shown).work("scoring", total) as work:
        for _ in range(2):
            now[0] += 10.0
            work.advance()
        [text] = shown.get_renderables()
    console.print(text)
    words = " ".join(re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue()).split())
    assert words.endswith(f"0:00:20 {left}".strip()) and words.count("left") == bool(left)


def test_a_remark_is_logged_with_its_time_and_without_control_characters(tmp_path, capsys):
    with watching(tmp_path / "run.log") as progress:
        progress.log("resolved \x1b[2J 12 %")
    assert capsys.readouterr().err == "resolved \\x1b[2J 12 %\n"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d resolved \\x1b\[2J 12 %\n", (tmp_path / "run.log").read_text())


def test_bars_disappear_at_the_end_and_show_markup_as_text():
    console = Console(file=io.StringIO(), width=200, force_terminal=True, markup=False, highlight=False)
    with RunBars(console) as shown:
        bars = Bars(shown)
        with bars.work("evaluating [bold]base[/]", 4) as work:
            work.advance(3, note="resolved 1 of 3")
            shown.refresh()
            bars.log("half [red]way[/] \x1b]0;x\x07")
        assert not shown.tasks
    text = console.file.getvalue()
    assert "evaluating [bold]base[/]" in text
    assert "3/4" in text and "resolved 1 of 3" in text
    assert "half [red]way[/] \\x1b]0;x\\x07" in text


def test_a_duration_has_hours_minutes_and_seconds():
    assert to_duration(75.2) == "0:01:15"


class Screen:
    """Terminal of a given width, with a clock that the test moves."""

    def __init__(self, width):
        self.now, self.bars = 0.0, RunBars(Console(file=io.StringIO(), width=width, force_terminal=True))
        self.bars.get_time = lambda: self.now

    @property
    def lines(self):
        self.bars.console.file = io.StringIO()
        for part in self.bars.get_renderables():
            self.bars.console.print(part)
        return [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in self.bars.console.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (120, "last iteration: resolved 43.8% (-18.8 points) · 1,234 sampled tokens/s · run: about 0:02:00 left"),
        (80, "43.8% (-18.8) · 1,234 tok/s · run 0:02:00 left"),
        (60, "43.8% (-18.8) · 1,234 tok/s · run 0:02:00 left"),
    ],
)
def test_the_standing_is_shown_below_the_bars_and_its_time_left_counts_down(width, shown):
    screen = Screen(width)
    bars = Bars(screen.bars)
    with bars.work("stage1: iteration 2 of 8", 10):
        bars.show_standing(Standing(0.4375, -0.1875, 1234.4, 120.0))
        assert screen.lines[-1] == shown
        screen.now += 50
        assert screen.lines[-1] == shown.replace("2:00", "1:10")
        screen.now += 100
        assert "left" not in screen.lines[-1]
        bars.show_standing(Standing(0.5, None, None, None))
        assert screen.lines[-1] == "last iteration: resolved 50.0%"
    assert screen.lines == []


def test_a_narrow_terminal_shows_two_short_lines_for_each_piece_of_work():
    screen = Screen(40)
    with Bars(screen.bars).work("stage1: iteration 2 of 8", 10) as work:
        screen.now += 10
        work.advance(5, note="resolved 3 of 5, " + "many more words " * 5)
        first, second = screen.lines
    assert (
        first == "stage1: iteration 2 of 8  5/10  0:00:10…"
        and second.startswith("  resolved 3 of 5")
        and len(second) <= 40
    )
    screen = Screen(100)
    with Bars(screen.bars).work("stage1", 10):
        assert "━" in screen.lines[0] and len(screen.lines) == 1
