"""View of one trajectory, turn by turn. Control characters in agents' texts are escaped."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from turnsmith.types import Task, Trajectory, Turn
from turnsmith.ui.tables import count_up
from turnsmith.ui.terminal import to_line, to_printable

INDENT = (0, 0, 0, 2)
MAX_TESTS = 20
"""Maximum number of tests listed by name; the others are counted."""


def show_trajectory(trajectory: Trajectory, prompt: str, task: Task | None, console: Console) -> None:
    """Print a trajectory."""
    console.print(*trajectory_parts(trajectory, prompt, task))


def trajectory_parts(trajectory: Trajectory, prompt: str, task: Task | None) -> Iterator[RenderableType]:
    """Yield the parts of a trajectory to print: heading, prompt, issue, turns, patch and verdict.

    An issue in the prompt is not repeated.
    """
    yield head(trajectory)
    yield make_rule(f"prompt · {trajectory.prompt_tokens} tokens")
    yield Padding(plain(prompt.strip()), INDENT)
    if task and task.problem_statement.strip() not in prompt:
        yield make_rule("issue")
        yield Padding(plain(task.problem_statement.strip()), INDENT)
    for number, turn in enumerate(trajectory.turns, 1):
        yield from turn_parts(turn, number, trajectory)
    yield from verdict_parts(trajectory)


def head(trajectory: Trajectory) -> Text:
    """Format the heading of a trajectory: id, outcome, and numbers of turns, tokens and seconds."""
    style = "bold green" if trajectory.resolved else "bold red"
    facts = [
        f"ended by {trajectory.stop_reason}",
        f"{trajectory.num_turns} turns",
        f"{trajectory.num_tokens} tokens, {trajectory.num_sampled} of them sampled",
        f"policy version {trajectory.policy_version}"
        if trajectory.form == "tokens"
        else "messages of an endpoint, which counted the tokens",
        f"isolation {to_line(trajectory.isolation) or 'unknown'}",
        f"{trajectory.duration_s:.1f} s",
    ]
    name, ending = (to_line(trajectory.trajectory_id), "bold"), (trajectory.outcome.value, style)
    return Text.assemble(name, "  ", ending, "\n", (" · ".join(facts), "dim"))


def turn_parts(turn: Turn, number: int, trajectory: Trajectory) -> Iterator[RenderableType]:
    """Yield the parts of a turn to print: rule, text, errors and observation."""
    logprobs = trajectory.logprobs[turn.start : turn.end]
    mean = f" · mean log-prob {logprobs.mean():.2f}" if len(logprobs) else ""
    cut = " · cut at the length limit" if turn.finish_reason == "length" else ""
    yield make_rule(
        f"turn {number} · {turn.end - turn.start} tokens{mean}{cut} · {turn.generate_s:.1f} s + {turn.act_s:.1f} s"
    )
    yield Padding(plain(turn.text.strip(), "cyan"), INDENT)
    if turn.format_error:
        yield Padding(plain(f"format error: {turn.format_error}", "bold red"), INDENT)
    if turn.exit_code:
        yield Padding(plain(f"exit code {turn.exit_code}", "yellow"), INDENT)
    if turn.observation:
        yield Padding(plain(turn.observation.rstrip()), (0, 0, 0, 6))


def verdict_parts(trajectory: Trajectory) -> Iterator[RenderableType]:
    """Yield the end of a trajectory to print: its patch, and the grader's verdict with test results."""
    yield make_rule("patch")
    patch = Syntax(to_printable(trajectory.patch), "diff", theme="ansi_dark", word_wrap=True)
    yield Padding(patch if trajectory.patch else plain("no changes", "dim"), INDENT)
    yield make_rule("verdict")
    yield Padding(plain(trajectory.outcome.value, "bold green" if trajectory.resolved else "bold red"), INDENT)
    if trajectory.detail:
        yield Padding(plain(to_line(trajectory.detail)), INDENT)
    if trajectory.grade and trajectory.grade.statuses:
        yield Padding(plain(describe_tests(trajectory.grade.statuses)), INDENT)


def describe_tests(statuses: dict[str, str]) -> str:
    """Describe the number of tests by status, and name those that did not pass."""
    broken = [f"{status}: {to_line(test)}" for test, status in statuses.items() if status != "passed"]
    more = [f"… and {len(broken) - MAX_TESTS} more"] if len(broken) > MAX_TESTS else []
    return "\n".join([f"tests: {count_up(Counter(statuses.values()))}", *broken[:MAX_TESTS], *more])


def plain(text: str, style: str = "") -> Text:
    """Return text with escaped control characters."""
    return Text(to_printable(text), style=style)


def make_rule(title: str) -> Rule:
    """Make a line with a title at its left end."""
    return Rule(Text(to_line(title), style="dim"), align="left", style="dim")
