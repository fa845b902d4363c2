"""Groups of attempts at one task, with rewards and advantages side by side."""

from typing import Any

from turnsmith.errors import UsageError
from turnsmith.runs.folder import IterationFolder, read_json
from turnsmith.types import OUTCOMES, Outcome
from turnsmith.ui.view.answers import describe_summary
from turnsmith.ui.view.opened import OpenedRun


def describe_group(run: OpenedRun, journal: str, task: str) -> list[dict[str, Any]]:
    """List the attempts of a journal at one task. Raises UsageError if there is none."""
    found = [attempt for attempt in list_attempts(run, journal) if attempt["task"] == task]
    if not found:
        raise UsageError(f"{run.folder.path} has no attempt at {task[:200]} in {journal[:200]}: choose one of the grid")
    return sorted(found, key=lambda attempt: attempt["index"])


def list_attempts(run: OpenedRun, journal: str = "") -> list[dict[str, Any]]:
    """List the attempts of a journal (empty: all), with rewards and advantages if the run recorded them."""
    summaries = [(name, summary) for name, summary in run.list_summaries() if journal in ("", name)]
    rewards = {name: read_rewards(run, name) for name in {name for name, _ in summaries}}
    return [
        {
            "journal": name,
            **describe_summary(summary),
            **describe_reward(summary.outcome, rewards[name].get(summary.trajectory_id)),
        }
        for name, summary in summaries
    ]


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
