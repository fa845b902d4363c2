"""Groups of attempts at one task: rewards and advantages side by side, and the difference between two attempts."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.runs.folder import IterationFolder, read_json
from turnsmith.types import OUTCOMES, Outcome, Trajectory
from turnsmith.ui.view.answers import describe_summary
from turnsmith.ui.view.opened import OpenedRun

MAX_LINES = 20_000
"""Maximum number of lines of a text that is compared, because the comparison takes quadratic time at worst."""

Line = tuple[str, str]
"""Sign of a line (` ` in both texts, `-` in the first, `+` in the second), and the line."""


def describe_group(run: OpenedRun, journal: str, task: str) -> dict[str, Any]:
    """Return the attempts of a journal at one task, with rewards and advantages if the run recorded them. Raises UsageError."""
    found = [summary for name, summary in run.list_summaries() if (name, summary.instance_id) == (journal, task)]
    if not found:
        raise UsageError(f"{run.folder.path} has no attempt at {task[:200]} in {journal[:200]}: choose one of the grid")
    rewards = read_rewards(run, journal)
    attempts = [
        {**describe_summary(summary), **describe_reward(summary.outcome, rewards.get(summary.trajectory_id))}
        for summary in sorted(found, key=lambda summary: summary.index)
    ]
    return {"task": task, "journal": journal, "attempts": attempts}


def read_rewards(run: OpenedRun, journal: str) -> dict[str, dict[str, float | None]]:
    """Read rewards and advantages by trajectory id; empty if the journal is not one of RL, or if it is of an older version."""
    file = IterationFolder(run.folder.path / journal).rewards
    return dict(read_json(file)) if file.exists() else {}


def describe_reward(outcome: Outcome, recorded: dict[str, float | None] | None) -> dict[str, float | None]:
    """Return reward, its parts, and advantage; None for what was not recorded.

    The part of the tests is 1 or 0. The other part is the length penalty, or any value in a control run with permuted rewards.
    """
    reward = (recorded or {}).get("reward")
    tests = float(outcome == Outcome.RESOLVED) if OUTCOMES[outcome].in_group else None
    other = None if reward is None or tests is None else reward - tests
    return {"reward": reward, "tests": tests, "length": other, "advantage": (recorded or {}).get("advantage")}


def compare_attempts(run: OpenedRun, journal: str, starts: tuple[int, int]) -> dict[str, Any]:
    """Compare actions and patches of the attempts at two bytes of a journal, line by line. Raises UsageError."""
    one, other = (run.read(journal, start).trajectory for start in starts)
    return {
        "names": [one.trajectory_id, other.trajectory_id],
        "outcomes": [one.outcome, other.outcome],
        "turns": [*compare_lines(list_actions(one), list_actions(other))],
        "patch": [*compare_lines(one.patch.splitlines(), other.patch.splitlines())],
    }


def list_actions(trajectory: Trajectory) -> list[str]:
    """List the lines of all commands, or of the whole message if it has no command; the first line of each starts with `$ `."""
    texts = ("$ " + (turn.text if turn.command is None else turn.command) for turn in trajectory.turns)
    return [line for text in texts for line in text.splitlines()]


def compare_lines(one: Sequence[str], other: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of two texts with their signs. Raises UsageError if a text is too long."""
    if max(len(one), len(other)) > MAX_LINES:
        raise UsageError(f"a text has more than {MAX_LINES:,} lines: compare the attempts on their own pages")
    for kind, start, end, new_start, new_end in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from ((" ", line) for line in one[start:end])
        else:
            yield from (("-", line) for line in one[start:end])
            yield from (("+", line) for line in other[new_start:new_end])
