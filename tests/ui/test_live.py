import io
import re

import pytest
from rich.console import Console

from turnsmith.ui.live import Bars, Lines, Work, make_bars, to_duration, watching


def make_lines(interval_s):
    return Lines(Console(file=io.StringIO(), width=200), interval_s)


def written(lines):
    return lines._console.file.getvalue().splitlines()


def test_plain_lines_are_throttled_and_the_end_is_always_told():
    lines = make_lines(interval_s=3600)
    lines.begin("collecting", 200)
    for _ in range(200):
        lines.advance("collecting", note="resolved 3 of 9")
    lines.end("collecting")
    assert written(lines) == ["collecting: 200 of 200, resolved 3 of 9, took 0:00:00"]


def test_plain_lines_tell_the_time_left():
    lines = make_lines(interval_s=0)
    lines.begin("collecting", 4)
    for _ in range(2):
        lines.advance("collecting")
    assert written(lines)[-1] == "collecting: 2 of 4, 0:00:00 left"


def test_what_was_done_before_a_resume_is_no_pace():
    work = Work(total=100, began=0.0, told=0.0)
    work.add(90, "")
    assert work.left_s(now=1.0) is None
    work.add(5, "")
    assert work.left_s(now=10.0) == pytest.approx(10.0)


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
