"""Benchmark of warm test runs: a fork of a process that has imported pytest, compared with `python -m pytest`.

Equality: each suite of `suites.py` runs cold and warm, each time in a new sandbox. All fields of the two reports must agree.

Speed: a suite of two trivial tests runs in one sandbox in four ways. The table shows the medians:

- cold, usual plugins: a shell starts `python -m pytest`, which loads all installed plugins;
- cold, no plugins: the same with PYTEST_DISABLE_PLUGIN_AUTOLOAD, which every graded run sets;
- warm, no plugins: a fork without plugins;
- warm, usual plugins: a fork that loads all installed plugins by `-p`.

Outcomes: resolving and other patches are graded warm, in turn. Their median times must be similar.

`--check` exits with 1 if a figure misses its requirement or a report differs.
"""

import argparse
import asyncio
import importlib.metadata
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from suites import SUITES, SmallSuite
from turnsmith.config import SandboxConfig
from turnsmith.grading.grading import Grader
from turnsmith.grading.testing import Suite, SuiteReport, run_cold, run_warm
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import PYTEST_COMMAND, Outcome, Task, TaskTree

COLD_PLUGINS, COLD, WARM, WARM_PLUGINS = (
    "cold, usual plugins",
    "cold, no plugins",
    "warm, no plugins",
    "warm, usual plugins",
)
MIN_RATIOS = {COLD_PLUGINS: 10.0, COLD: 2.5}
"""Required speed-up of a warm run."""
MAX_OUTCOME_RATIO = 1.3
"""Allowed ratio between the times of resolved and unresolved verdicts."""
PATIENCE_S = 300.0
SOURCE, FIXED = "calc.py", "def add(a, b):\n    return a + b\n"
BUGGY = FIXED.replace("a + b", "a - b")
TABLE = (
    "import pytest\nfrom calc import add\n\n\n@pytest.mark.parametrize('a, b', [(n, n) for n in range(100)])\n"
    "def test_add(a, b):\n    assert add(a, b) == 2 * a\n"
)
TESTS = "def test_one():\n    assert 1 + 1 == 2\n\n\ndef test_two():\n    assert 'a' in 'abc'\n"
Run = Callable[[Sandbox, Suite], Awaitable[SuiteReport]]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure misses its requirement")
    parser.add_argument("--rounds", type=int, default=25, help="timed runs of each kind")
    arguments = parser.parse_args()
    num_differing = await compare_verdicts()
    is_met = await compare_times(arguments.rounds)
    is_one_run = await compare_outcomes(arguments.rounds)
    if arguments.check and (num_differing or not is_met or not is_one_run):
        sys.exit(1)


async def compare_outcomes(num_rounds: int) -> bool:
    """Print the time of resolved and unresolved verdicts. Return True if their ratio is allowed."""
    provider = make_provider(SandboxConfig(kind="local"))
    grader = Grader(provider, tests_timeout_s=PATIENCE_S, num_workers=1)
    times: dict[Outcome, list[float]] = {Outcome.RESOLVED: [], Outcome.UNRESOLVED: []}
    with tempfile.TemporaryDirectory() as folder:
        tree = make_task(Path(folder))
        wrong = make_patch(SOURCE, BUGGY, FIXED.replace("a + b", "a * b"))
        for _ in range(num_rounds + 1):
            for outcome, patch in zip(times, (tree.task.patch, wrong), strict=True):
                grader.forget()
                grade = await grader.grade(tree, patch)
                if grade.outcome is not outcome:
                    sys.exit(f"a patch that must be {outcome} was {grade.outcome}: {grade.detail}")
                times[outcome].append(grade.duration_s * 1000)
    await provider.close()
    medians = [statistics.median(values[1:]) for values in times.values()]
    ratio = medians[0] / medians[1]
    print(
        f"verdicts, warm: resolved {medians[0]:.0f} ms, unresolved {medians[1]:.0f} ms: {ratio:.2f} ×, "
        f"required ≤ {MAX_OUTCOME_RATIO}: {'yes' if ratio <= MAX_OUTCOME_RATIO else 'MISSED'}"
    )
    return ratio <= MAX_OUTCOME_RATIO


def make_task(folder: Path) -> TaskTree:
    """Return a task with a hundred quick tests, most of which fail."""
    folder.chmod(0o755)
    (folder / SOURCE).write_text(BUGGY)
    (folder / "test_calc.py").write_text(TABLE)
    names = {number: f"test_calc.py::test_add[{number}-{number}]" for number in range(100)}
    task = Task(
        instance_id="calc", repo="calc", base_commit="0", problem_statement="add", layers=[str(folder)],
        FAIL_TO_PASS=[name for number, name in names.items() if number], PASS_TO_PASS=[names[0]],
        patch=make_patch(SOURCE, BUGGY, FIXED),
    )  # fmt: skip
    return TaskTree(task, (folder,))


async def compare_verdicts() -> int:
    """Run every small suite cold and warm. Return the number of suites with differing reports."""
    provider = make_provider(SandboxConfig(kind="local"))
    differing, num_cold = {}, 0
    for name, small in SUITES.items():
        cold, warm = [await run_alone(provider, small, run) for run in (run_cold, run_warm)]
        num_cold += not warm.is_warm
        if found := differing_fields(cold, warm):
            differing[name] = found
    await provider.close()
    print(f"{len(SUITES)} suites, cold and warm: {len(differing)} differ; {num_cold} could not be forked and ran cold")
    for name, found in differing.items():
        print(f"  {name}: {', '.join(found)}")
    return len(differing)


async def run_alone(provider: SandboxProvider, small: SmallSuite, run: Run) -> SuiteReport:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        small.write(Path(folder))
        sandbox = await provider.start(SandboxSpec((Path(folder),), is_for_tests=True))
        try:
            return await run(sandbox, Suite(small.command(PYTEST_COMMAND), ("test_it.py",), timeout_s=small.timeout_s))
        finally:
            await sandbox.stop()


def differing_fields(cold: SuiteReport, warm: SuiteReport) -> list[str]:
    """Return the fields that differ between two reports, except times and logs."""
    names = {field.name for field in fields(SuiteReport)} - {"duration_s", "log", "is_warm"}
    return [name for name in sorted(names) if getattr(cold, name) != getattr(warm, name)]


async def compare_times(num_rounds: int) -> bool:
    """Print the table of times. Return True if all requirements are met."""
    plugins = list(importlib.metadata.entry_points(group="pytest11"))
    distributions = sorted({plugin.dist.name for plugin in plugins if plugin.dist})
    provider = make_provider(SandboxConfig(kind="local", test_plugins=distributions))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "test_two.py").write_text(TESTS)
        sandbox = await provider.start(SandboxSpec((Path(folder),), is_for_tests=True))
        times = await time_in_turn(sandbox, [plugin.name for plugin in plugins], num_rounds)
        await sandbox.stop()
    await provider.close()
    print(f"usual plugins: {', '.join(distributions)}")
    return print_times(provider.isolation, times)


async def time_in_turn(sandbox: Sandbox, plugins: list[str], num_rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each run by kind, after a warm-up round."""
    kinds: dict[str, tuple[Run, str]] = {
        COLD_PLUGINS: (run_cold, f"env -u PYTEST_DISABLE_PLUGIN_AUTOLOAD {PYTEST_COMMAND}"),
        COLD: (run_cold, PYTEST_COMMAND),
        WARM: (run_warm, PYTEST_COMMAND),
        WARM_PLUGINS: (run_warm, f"{PYTEST_COMMAND} {' '.join(f'-p {name}' for name in plugins)}"),
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(num_rounds + 1):
        for name, (run, command) in kinds.items():
            times[name].append(await time_ms(sandbox, run, Suite(command, ("test_two.py",), timeout_s=PATIENCE_S)))
    return {name: values[1:] for name, values in times.items()}


async def time_ms(sandbox: Sandbox, run: Run, suite: Suite) -> float:
    """Return the milliseconds of a run. Exit if a test fails or the run is not warm or cold as requested."""
    begun = time.perf_counter()
    report = await run(sandbox, suite)
    duration_ms = (time.perf_counter() - begun) * 1000
    if len(report.passing) != 2 or not report.agrees or report.is_warm != (run is run_warm):
        sys.exit(f"{suite.command!r} ended with {report.exit_code}: {report.log}")
    return duration_ms


def print_times(isolation: str, times: dict[str, list[float]]) -> bool:
    """Print one row per kind. Return True if all requirements are met."""
    table = Table(
        Column("two trivial tests", no_wrap=True),
        "median",
        "fastest",
        "over warm",
        "required",
        "",
        title=f"test runs, {isolation}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    )
    are_met = []
    for name, values in times.items():
        ratio, required = statistics.median(values) / statistics.median(times[WARM]), MIN_RATIOS.get(name)
        are_met.append(required is None or ratio >= required)
        verdict = [f"≥ {required:g}", "yes" if are_met[-1] else "MISSED"] if required else ["", ""]
        table.add_row(name, f"{statistics.median(values):.0f} ms", f"{min(values):.0f} ms", f"{ratio:.1f} ×", *verdict)
    Console().print(table)
    return all(are_met)


if __name__ == "__main__":
    asyncio.run(main())
