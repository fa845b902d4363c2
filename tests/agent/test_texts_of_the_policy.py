"""Snapshot of all texts that the policy reads. Another wording changes samples, so results are no longer comparable."""

from pathlib import Path

import pytest

from turnsmith.agent.loop import NOTHING_RUN, RIGHT_FORMAT
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.agent.tools.shell import describe
from turnsmith.chat.truncation import NOTICE
from turnsmith.types import ExecResult

SNAPSHOT = Path(__file__).parent / "data" / "texts-of-the-policy.txt"
STATEMENT = "`total` is wrong."

COMMANDS = (
    *(
        "goto 3",
        "edit 1:1 x",
        "create a.py",
        "create a.py",
        "edit a b",
        "edit 3:1 b",
        "edit 9:9 b",
        "edit 1:1 'unclosed",
    ),
    *("edit 1:1 << 'EOF'\none\ntwo two\nEOF", "edit 1:1 << 'EOF'\nx", "edit 1:1 << EOF\nx\nEOF\nls", "edit 1:1 --file"),
    *(
        "replace two 2",
        "replace '' 2",
        "replace three 3",
        "replace two 2 --replace-all",
        "replace 1",
        "submit << EOF\nx\nEOF",
    ),
    *("open", "open none.py", "open .", "open data.bin", "open long.txt 50", "open long.txt 999", "goto 0", "goto 500"),
    *(
        "scroll_down",
        "scroll_up",
        "search_file '40'",
        "search_file ''",
        "search_file line",
        "search_file absent",
        "goto --help",
    ),
    *("true", "false", "echo out; exit 3", "vim a.py", "python", "tail -f long.txt", "cd / && search_file a", "submit"),
)


def prompts():
    for name, scaffold in {
        "paper": load_scaffold("paper"),
        "brief": load_scaffold("paper", prompts="brief"),
        "bash": load_scaffold("bash"),
    }.items():
        for demonstration in (False, True):
            yield f"system prompt of {name}, demonstration {demonstration}", scaffold.system(demonstration)
        yield f"issue of {name}", scaffold.issue(STATEMENT, "/project")
    stopped = ExecResult(-9, b"out", 30.0, timed_out=True, truncated=True, cwd="/")
    yield "a command that was stopped", "\n".join(describe(stopped, timeout_s=30.0))
    yield "a long observation", NOTICE
    yield "format errors", "\n".join([*NOTHING_RUN.values(), RIGHT_FORMAT])


@pytest.fixture
async def observations(play_with, project):
    (project / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 201)))
    (project / "data.bin").write_bytes(b"\0")
    play = play_with(load_scaffold("paper"), timeout_s=60.0)
    return [(f"$ {command}", (await play(command)).replace(str(project), "/project")) for command in COMMANDS]


async def test_no_text_that_the_policy_reads_has_changed(observations, tmp_path):
    text = "\n\n".join(f"=== {title}\n{body}" for title, body in [*prompts(), *observations]) + "\n"
    (tmp_path / "new.txt").write_text(text)
    assert text == SNAPSHOT.read_text(), (
        f"to accept the new texts, and lose comparable results: cp {tmp_path}/new.txt {SNAPSHOT}"
    )
