"""Live view of `turnsmith solve`, and view of its solution. Control characters in agents' texts are escaped."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from shlex import quote

from rich.console import Console, RenderableType
from rich.padding import Padding

from turnsmith.recipes.solve.given_tests import TestRun
from turnsmith.recipes.solve.solution import STAGE, Attempt, Solution
from turnsmith.runs.folder import RunFolder
from turnsmith.types import Turn
from turnsmith.ui.live import MessagePrinter
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import to_line
from turnsmith.ui.trajectory import INDENT, make_rule, plain

MAX_LINES = 12
"""Maximum number of lines that the live view shows of an observation; the others are counted."""


class Screen(MessagePrinter):
    """Progress display of `turnsmith solve`, which prints messages and the turns of all attempts."""

    def work(self, label: str, total: int | None, num_done: int = 0) -> AbstractContextManager["Screen"]:
        """Print the label of a piece of work, and no progress bar, since it would mix with the printed turns."""
        self.log(label)
        return nullcontext(self)

    def advance(self, num: int = 1, note: str = "") -> None:
        """Do nothing, since the printed turns show the progress."""

    def show_turn(self, attempt: int, number: int, turn: Turn) -> None:
        """Print a turn: the policy's text and the beginning of the observation."""
        self.console.print(*turn_lines(attempt, number, turn))


def turn_lines(attempt: int, number: int, turn: Turn) -> Iterator[RenderableType]:
    """Yield the parts of a turn to print: a rule, the policy's text and the shortened observation."""
    yield make_rule(f"attempt {attempt + 1} · turn {number} · {turn.generate_s:.1f} s + {turn.act_s:.1f} s")
    yield Padding(plain(turn.text.strip(), "cyan"), INDENT)
    lines = turn.observation.rstrip().splitlines()
    more = [f"… and {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    yield Padding(plain("\n".join(lines[:MAX_LINES] + more)), (0, 0, 0, 6))


def show_solution(folder: RunFolder, solution: Solution, console: Console) -> None:
    """Print the attempts, the kept attempt with the reason and its tests, and the path of the patch."""
    console.print(make_table(["attempt", "ended by", "turns", "patch", "tests"], map(_cells, solution.attempts), 2))
    kept = next((each for each in solution.attempts if each.trajectory_id == solution.kept), None)
    for name, text in describe(folder, solution, kept):
        console.print(f"{name:14}{to_line(text)}", soft_wrap=True)


def _cells(attempt: Attempt) -> list[str]:
    number = int(attempt.trajectory_id.rpartition("/")[2]) + 1
    tests = "not run" if attempt.tests is None else "passed" if attempt.tests.passed else "not passed"
    return [str(number), attempt.stop_reason, str(attempt.num_turns), f"{attempt.patch_bytes} bytes", tests]


def describe(folder: RunFolder, solution: Solution, kept: Attempt | None) -> Iterator[tuple[str, str]]:
    """Yield a heading and a line of text for each fact about the solution."""
    if kept is None:
        yield (
            "no patch",
            "; ".join(dict.fromkeys(filter(None, (each.detail for each in solution.attempts))))
            or "no attempt finished",
        )
    else:
        yield "kept", f"{kept.trajectory_id}: {solution.why}"
        if kept.tests:
            yield from describe_tests(solution.test_command, kept.tests)
        yield "patch", solution.patch
    yield "turns", f"turnsmith show {quote(str(folder.path))} --trajectory {STAGE}"


def describe_tests(command: str, run: TestRun) -> Iterator[tuple[str, str]]:
    """Yield heading and text of the test command's result, its last output lines, and files left out of the patch."""
    ending = f"exit code {run.exit_code} after {run.duration_s:.1f} s, " if run.exit_code is not None else ""
    sealed = "report protected from the code under test" if run.is_sealed else "by exit code alone"
    reason = f": {run.reason}" if run.reason else ""
    yield (
        "tests",
        f"{command}: {ending}{'' if run.passed else 'not '}passed ({sealed}){reason}",
    )
    for line in run.lines:
        yield "", line
    for name in run.left_out:
        yield "left out", f"{name}: in the patch, but not in the tested tree"
