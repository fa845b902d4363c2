"""Benchmark of local sandboxes: one life cycle, and one action.

The bench compares them with a copied tree and a subprocess, with bubblewrap, and with podman, in turn. The table shows medians.
`--check` exits with 1 if a figure misses its requirement.
"""

import argparse
import asyncio
import operator
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec

MAX_CYCLE_MS = 12.0
MIN_CYCLES_PER_S = 150.0
MAX_OVERHEAD_MS = 0.5
NUM_FILES = 200
"""Number of files in the tree, two kilobytes each."""
TIMEOUT_S = 60.0
COMMAND = ["bash", "-c", "true"]

Act = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Row:
    name: str
    figure: str
    requirement: str = ""
    is_met: bool = True


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure misses its requirement")
    parser.add_argument("--podman-image", default="", help="image with bash, for the comparison with podman")
    arguments = parser.parse_args()
    provider = make_provider(SandboxConfig(kind="local"))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        make_tree(tree)
        others = find_others(tree, Path(folder, "copy"), arguments.podman_image)
        rows = await measure(provider, SandboxSpec((tree,)), others)
    await provider.close()
    print_table(provider.isolation, rows)
    if arguments.check and not all(row.is_met for row in rows):
        sys.exit(1)


def make_tree(folder: Path) -> None:
    folder.mkdir()
    for number in range(NUM_FILES):
        (folder / f"{number}.py").write_text(f"x = {number}\n" * 200)


def find_others(tree: Path, copy: Path, image: str) -> dict[str, Act | str]:
    """Return the life cycle of each alternative, or the reason for its absence."""
    return {
        "copied tree + subprocess": lambda: run_over_copy(tree, copy, COMMAND),
        "copied tree + bubblewrap": find_bubblewrap(tree, copy),
        "podman run": find_podman(tree, image),
    }


def find_bubblewrap(tree: Path, copy: Path) -> Act | str:
    if not shutil.which("bwrap"):
        return "absent: bubblewrap is not installed"
    if failure := try_out(wrap(tree)):
        return f"absent: {failure}"
    return lambda: run_over_copy(tree, copy, wrap(copy))


def find_podman(tree: Path, image: str) -> Act | str:
    """Return the life cycle with podman, which mounts the tree as an overlay (`:O`), or the reason for its absence."""
    if not shutil.which("podman"):
        return "absent: podman is not installed"
    if not image:
        return "absent: no --podman-image"
    command = ["podman", "run", "--rm", "--network=none", f"--volume={tree}:/testbed:O", image, *COMMAND]
    failure = try_out(command)
    return f"absent: {failure}" if failure else lambda: run_program(command)


def try_out(command: list[str]) -> str:
    """Run a command. Return the last line of its error; empty if it succeeds."""
    finished = subprocess.run(command, capture_output=True, text=True)
    return (
        (finished.stderr.strip() or f"exit code {finished.returncode}").splitlines()[-1] if finished.returncode else ""
    )


def wrap(tree: Path) -> list[str]:
    """Return the bubblewrap command: new namespaces, system read-only, tree writable."""
    links = [word for name in ("bin", "lib", "lib64") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    mounts = ["--ro-bind", "/usr", "/usr", *links, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    return ["bwrap", "--unshare-all", "--die-with-parent", *mounts, "--bind", str(tree), "/testbed", *COMMAND]


async def run_over_copy(tree: Path, copy: Path, command: list[str]) -> None:
    shutil.copytree(tree, copy)
    await run_program(command, cwd=copy)
    shutil.rmtree(copy)


async def run_program(command: list[str], cwd: Path | None = None) -> None:
    process = await asyncio.create_subprocess_exec(*command, cwd=cwd, stdout=subprocess.DEVNULL)
    if await process.wait():
        sys.exit(f"{command} ended with {process.returncode}")


async def measure(provider: SandboxProvider, spec: SandboxSpec, others: Mapping[str, Act | str]) -> list[Row]:
    return [
        *await measure_cycles(provider, spec, others),
        *await measure_actions(provider, spec),
    ]


async def measure_cycles(provider: SandboxProvider, spec: SandboxSpec, others: Mapping[str, Act | str]) -> list[Row]:
    present = {name: act for name, act in others.items() if not isinstance(act, str)}
    medians = await compare({"ours": lambda: run_cycle(provider, spec), **present}, num_rounds=40)
    per_s = await count_cycles_per_s(provider, spec, num_workers=2, duration_s=3.0)
    await run_cycle(provider, replace(spec, is_for_tests=True))
    warm = await compare({"ours": lambda: run_cycle(provider, spec)}, num_rounds=40)
    return [
        at_most("start + first command + stop", medians["ours"], MAX_CYCLE_MS),
        *(
            Row(f"… by {name}", act if isinstance(act, str) else f"{medians[name]:.2f} ms")
            for name, act in others.items()
        ),
        Row("… after a sandbox for tests", f"{warm['ours']:.2f} ms"),
        Row("life cycles, 2 workers", f"{per_s:.0f} / s", f"≥ {MIN_CYCLES_PER_S:.0f} / s", per_s >= MIN_CYCLES_PER_S),
    ]


async def measure_actions(provider: SandboxProvider, spec: SandboxSpec) -> list[Row]:
    sandbox = await provider.start(spec)
    sides: dict[str, Act] = {"bare": spawn_bash, "inside": lambda: run(sandbox, "true")}
    if shutil.which("bwrap") and not try_out(wrap(spec.layers[0])):
        sides["bubblewrap"] = lambda: spawn(wrap(spec.layers[0]))
    times = await take_in_turn(sides, num_rounds=200)
    await sandbox.stop()
    bare = times.pop("bare")
    over = {name: statistics.median(map(operator.sub, taken, bare)) for name, taken in times.items()}
    return [
        Row("fork + exec of bash, no sandbox", f"{statistics.median(bare):.2f} ms"),
        at_most("overhead of one action", over.pop("inside"), MAX_OVERHEAD_MS),
        *(Row(f"… by {name}", f"{extra:.2f} ms") for name, extra in over.items()),
    ]


def at_most(name: str, measured_ms: float, limit_ms: float) -> Row:
    return Row(name, f"{measured_ms:.2f} ms", f"≤ {limit_ms:.1f} ms", measured_ms <= limit_ms)


async def run_cycle(provider: SandboxProvider, spec: SandboxSpec) -> None:
    sandbox = await provider.start(spec)
    await run(sandbox, "true")
    await sandbox.stop()


async def run(sandbox: Sandbox, command: str) -> None:
    result = await sandbox.exec(command, timeout_s=TIMEOUT_S)
    if result.exit_code:
        sys.exit(f"{command!r} ended with {result.exit_code}: {result.output.decode(errors='replace')}")


async def spawn_bash() -> None:
    """Run bash without a sandbox: the least cost of an action."""
    await spawn(["/bin/bash", "-c", "true"])


async def spawn(command: list[str]) -> None:
    os.waitpid(os.posix_spawnp(command[0], command, os.environ), 0)


async def compare(sides: Mapping[str, Act], num_rounds: int) -> dict[str, float]:
    """Return the median time of each act in milliseconds."""
    times = await take_in_turn(sides, num_rounds)
    return {name: statistics.median(taken) for name, taken in times.items()}


async def take_in_turn(sides: Mapping[str, Act], num_rounds: int) -> dict[str, list[float]]:
    """Return all times of each act in milliseconds, after two warm-up rounds."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(num_rounds + 2):
        for name, act in sides.items():
            begun = time.perf_counter()
            await act()
            times[name].append(to_ms(begun))
    return {name: taken[2:] for name, taken in times.items()}


def to_ms(begun: float) -> float:
    return (time.perf_counter() - begun) * 1000


async def count_cycles_per_s(
    provider: SandboxProvider, spec: SandboxSpec, num_workers: int, duration_s: float
) -> float:
    """Count life cycles per second with concurrent workers."""
    begun = time.perf_counter()

    async def work() -> int:
        num_cycles = 0
        while time.perf_counter() - begun < duration_s:
            await run_cycle(provider, spec)
            num_cycles += 1
        return num_cycles

    counts = await asyncio.gather(*(work() for _ in range(num_workers)))
    return sum(counts) / (time.perf_counter() - begun)


def print_table(isolation: str, rows: list[Row]) -> None:
    title = f"local sandbox, {isolation}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    table = Table("figure", "measured", "required", "", title=title)
    for row in rows:
        verdict = "yes" if row.is_met else "MISSED"
        table.add_row(row.name, row.figure, row.requirement, verdict if row.requirement else "")
    Console().print(table)


if __name__ == "__main__":
    asyncio.run(main())
