"""How quick a local sandbox is: start and stop, one action, many at once, a test run. `--check` fails where a figure is missed.

Both sides of each comparison run in turn in this one process; medians.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turnsmith.config import SandboxConfig
from turnsmith.rewards.testing import Suite, SuiteReport, run_cold, run_warm
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.types import PYTEST

MAX_CYCLE_MS = 20.0
MAX_OVERHEAD_MS = 3.0
TIMEOUT_S = 60.0
TESTS = "def test_one():\n    assert 1 + 1 == 2\n\n\ndef test_two():\n    assert 'a' in 'abc'\n"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure is missed")
    arguments = parser.parse_args()
    provider = make_provider(SandboxConfig(kind="local"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_two.py").write_text(TESTS)
        rows = await measure(provider, SandboxSpec((Path(folder),)))
    await provider.close()
    print_table(provider.isolation, rows)
    if arguments.check and not all(is_met for *_, is_met in rows):
        sys.exit(1)


async def measure(provider: SandboxProvider, spec: SandboxSpec) -> list[tuple[str, str, str, bool]]:
    """Rows of name, figure, requirement, met."""
    cycle_ms = await median_ms(lambda: run_cycle(provider, spec), num_rounds=40)
    sandbox = await provider.start(spec)
    bare_ms, action_ms = await compare_action(sandbox, num_rounds=200)
    per_s = await starts_per_second(provider, spec, num_workers=2, duration_s=3.0)
    await sandbox.stop()
    cold_ms, warm_ms = await compare_tests(provider, replace(spec, is_for_tests=True), num_rounds=15)
    warm_cycle_ms = await median_ms(lambda: run_cycle(provider, spec), num_rounds=40)
    overhead_ms = action_ms - bare_ms
    return [
        ("start + first command + stop", f"{cycle_ms:.2f} ms", f"≤ {MAX_CYCLE_MS:.0f} ms", cycle_ms <= MAX_CYCLE_MS),
        (
            "the same, once tests have run",
            f"{warm_cycle_ms:.2f} ms",
            f"≤ {MAX_CYCLE_MS:.0f} ms",
            warm_cycle_ms <= MAX_CYCLE_MS,
        ),
        ("fork + exec of bash, bare", f"{bare_ms:.2f} ms", "", True),
        (
            "one action, over the bare one",
            f"{overhead_ms:+.2f} ms",
            f"≤ {MAX_OVERHEAD_MS:.0f} ms",
            overhead_ms <= MAX_OVERHEAD_MS,
        ),
        ("starts with 2 workers", f"{per_s:.0f} / s", "", True),
        ("two trivial tests, python -m pytest", f"{cold_ms:.0f} ms", "", True),
        ("the same, forked", f"{warm_ms:.0f} ms, {cold_ms / warm_ms:.1f} times as fast", "", True),
    ]


async def run_cycle(provider: SandboxProvider, spec: SandboxSpec) -> None:
    sandbox = await provider.start(spec)
    await run(sandbox, "true")
    await sandbox.stop()


async def run(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.exec(command, timeout_s=TIMEOUT_S)
    if result.exit_code:
        sys.exit(f"{command!r} ended with {result.exit_code}: {result.output.decode(errors='replace')}")


async def median_ms(act: Callable[[], Awaitable[None]], num_rounds: int) -> float:
    """Median time of an act in milliseconds, after two rounds to warm up."""
    times = [await time_ms(act) for _ in range(num_rounds + 2)]
    return statistics.median(times[2:])


async def time_ms(act: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await act()
    return (time.perf_counter() - begun) * 1000


async def compare_action(sandbox: Sandbox, num_rounds: int) -> tuple[float, float]:
    """Medians of the same command, bare and in the sandbox, taken in turn."""
    bare, inside = [], []
    for _ in range(num_rounds):
        bare.append(await time_ms(spawn_bash))
        inside.append(await time_ms(lambda: run(sandbox, "true")))
    return statistics.median(bare), statistics.median(inside)


async def compare_tests(provider: SandboxProvider, spec: SandboxSpec, num_rounds: int) -> tuple[float, float]:
    """Medians of the same suite, by a fresh interpreter and by a fork of a warm one, taken in turn."""
    sandbox, suite = await provider.start(spec), Suite(PYTEST, ("test_two.py",))
    cold, warm = [], []
    for _ in range(num_rounds):
        cold.append(await time_ms(lambda: check_suite(sandbox, suite, run_cold)))
        warm.append(await time_ms(lambda: check_suite(sandbox, suite, run_warm)))
    await sandbox.stop()
    return statistics.median(cold), statistics.median(warm)


async def check_suite(sandbox: Sandbox, suite: Suite, by: Callable[[Sandbox, Suite], Awaitable[SuiteReport]]) -> None:
    report = await by(sandbox, suite)
    if len(report.passing) != 2:
        sys.exit(f"the suite ended with {report.exit_code}: {report.log}")


async def spawn_bash() -> None:
    """The least that any system does for an action."""
    os.waitpid(os.posix_spawn("/bin/bash", ["bash", "-c", "true"], os.environ), 0)


async def starts_per_second(provider: SandboxProvider, spec: SandboxSpec, num_workers: int, duration_s: float) -> float:
    """Whole life cycles per second, several at once."""
    begun = time.perf_counter()

    async def work() -> int:
        num_cycles = 0
        while time.perf_counter() - begun < duration_s:
            await run_cycle(provider, spec)
            num_cycles += 1
        return num_cycles

    counts = await asyncio.gather(*(work() for _ in range(num_workers)))
    return sum(counts) / (time.perf_counter() - begun)


def print_table(isolation: str, rows: list[tuple[str, str, str, bool]]) -> None:
    table = Table(
        "figure",
        "measured",
        "required",
        "",
        title=f"local sandbox, {isolation}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    )
    for name, figure, requirement, is_met in rows:
        table.add_row(name, figure, requirement, ("yes" if is_met else "MISSED") if requirement else "")
    Console().print(table)


if __name__ == "__main__":
    asyncio.run(main())
