import io
import re

import pytest
from rich.console import Console

from turnsmith.ui.live import LINE_INTERVAL_S, Bars, Lines, describe_left, make_bars, to_duration, watching


class Clock:
    """Plain lines by a clock that stands still until it is moved."""

    def __init__(self):
        self.now, self.console = 0.0, Console(file=io.StringIO(), width=200)
        bars = make_bars(self.console)
        bars.get_time = lambda: self.now
        self.lines = Lines(bars)

    @property
    def written(self):
        return self.console.file.getvalue().splitlines()


def test_plain_lines_are_throttled_and_the_end_is_always_told():
    clock = Clock()
    clock.lines.begin("collecting", 200)
    for _ in range(200):
        clock.lines.advance("collecting", note="resolved 3 of 9")
    clock.lines.end("collecting")
    assert clock.written == ["collecting: 200 of 200, resolved 3 of 9, took 0:00:00"]


def test_plain_lines_tell_the_time_left_and_what_was_done_before_a_resume_is_no_pace():
    clock = Clock()
    clock.lines.begin("collecting", 100, 90)
    for num in (1, 4, 1):
        clock.now += LINE_INTERVAL_S
        clock.lines.advance("collecting", num)
    clock.now += 55
    clock.lines.end("collecting")
    assert clock.written == [
        "collecting: 91 of 100",
        "collecting: 95 of 100, 0:00:20 left",
        "collecting: 96 of 100, 0:00:20 left",
        "collecting: 96 of 100, took 0:01:25",
    ]


def test_short_episodes_that_end_first_promise_no_early_end():
    """A stage of 64 episodes: two that end at once after 10 s, the others after a minute."""
    clock = Clock()
    clock.lines.begin("stage2", 64)
    clock.now += LINE_INTERVAL_S
    for _ in range(2):
        clock.lines.advance("stage2")
    clock.now += 50
    for _ in range(6):
        clock.lines.advance("stage2")
    assert clock.written == ["stage2: 1 of 64", "stage2: 3 of 64"]
    clock.now += LINE_INTERVAL_S
    clock.lines.advance("stage2")
    assert clock.written[2:] == ["stage2: 9 of 64, 0:07:08 left"]


def test_an_estimate_counts_down_and_ends_where_it_was_wrong():
    clock = Clock()
    clock.lines.begin("scoring", 4)
    clock.now += 30
    clock.lines.advance("scoring", 3)
    [task] = clock.lines._bars.tasks
    shown = []
    for _ in range(4):
        clock.now += 3
        shown.append(describe_left(task))
    assert shown == ["0:00:07 left", "0:00:04 left", "0:00:01 left", ""]


def test_work_of_unknown_length_shows_no_time_left():
    clock = Clock()
    clock.lines.begin("scoring again", None)
    for _ in range(2):
        clock.now += LINE_INTERVAL_S
        clock.lines.advance("scoring again")
    clock.lines.end("scoring again")
    assert clock.written == ["scoring again: 1", "scoring again: 2", "scoring again: 2, took 0:00:20"]


@pytest.mark.parametrize(("total", "left"), [(None, ""), (4, "0:00:20 left")])
def test_a_bar_shows_the_time_left_only_where_there_is_an_estimate(total, left):
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    now = [0.0]
    shown = make_bars(console)
    shown.get_time = lambda: now[0]
    bars = Bars(shown)
    bars.begin("scoring", total)
    for _ in range(2):
        now[0] += 10.0
        bars.advance("scoring")
    [text] = shown.get_renderables()
    console.print(text)
    words = " ".join(re.sub(r"\x1b\[[\d;]*m", "", console.file.getvalue()).split())
    assert words.endswith(f"0:00:20 {left}".strip()) and words.count("left") == bool(left)


def test_what_is_said_lands_in_the_log_with_its_time_and_without_control_characters(tmp_path, capsys):
    with watching(tmp_path / "run.log") as progress:
        progress.say("resolved \x1b[2J 12 %")
    assert capsys.readouterr().err == "resolved \\x1b[2J 12 %\n"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d resolved \\x1b\[2J 12 %\n", (tmp_path / "run.log").read_text())


def test_bars_come_and_go_and_show_text_as_it_is():
    console = Console(file=io.StringIO(), width=200, force_terminal=True, markup=False, highlight=False)
    with make_bars(console) as shown:
        bars = Bars(shown)
        bars.begin("evaluating [bold]base[/]", 4)
        bars.advance("evaluating [bold]base[/]", 3, note="resolved 1 of 3")
        shown.refresh()
        bars.say("half [red]way[/] \x1b]0;x\x07")
        bars.end("evaluating [bold]base[/]")
        assert not shown.tasks
    text = console.file.getvalue()
    assert "evaluating [bold]base[/]" in text
    assert "3/4" in text and "resolved 1 of 3" in text
    assert "half [red]way[/] \\x1b]0;x\\x07" in text


def test_durations_read_like_a_clock():
    assert to_duration(75.2) == "0:01:15"
