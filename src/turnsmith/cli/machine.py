"""Checks of this machine for `doctor`: the requirements of `configs/laptop.toml`, with remedies."""

import ctypes
import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from turnsmith.config.extras import EXTRAS
from turnsmith.errors import UsageError
from turnsmith.io.memory import read_available_bytes
from turnsmith.io.programs import run_program
from turnsmith.sandboxes.probes import MachineCheck, probe_local, probe_podman

MIN_MEMORY_BYTES = 3 * 2**30
MIN_DISK_BYTES = 2 * 2**30
MIN_CORES = 2
LEARNING_REMEDY = "pip install 'turnsmith[train]'"
TIMEOUT_S = 120.0
"""Time limit for importing torch, which is slow the first time."""
QUESTION = """
import json, torch
cards = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
print(json.dumps({"build": torch.__version__, "devices": [(card.name, card.total_memory) for card in cards]}))
"""
"""Script that prints torch's build and CUDA devices. It has its own process, since a faulty driver may crash it."""
ASK_TORCH = (sys.executable, "-c", QUESTION)


def examine_machine() -> list[MachineCheck]:
    """Run all checks of this machine; isolation comes first, since it fails most often."""
    return [
        *probe_local(),
        probe_podman(),
        *(examine_extra(name, find_requirements(name)) for name in EXTRAS),
        *([examine_accelerators()] if find_spec("torch") else []),  # the row of the extra reports a missing torch
        examine_memory(),
        examine_cores(),
        examine_openmp(),
        examine_disk(),
        examine_git(),
        MachineCheck("python", True, f"{platform.python_version()} {platform.machine()}"),
    ]


def find_requirements(extra: str) -> list[Requirement]:
    """List the packages that an extra of Turnsmith installs."""
    requirements = map(Requirement, importlib.metadata.requires("turnsmith") or [])
    return [each for each in requirements if each.marker and each.marker.evaluate({"extra": extra})]


def examine_extra(name: str, requirements: Sequence[Requirement]) -> MachineCheck:
    """Check that an extra's packages are installed in suitable versions, without importing them."""
    faults = [fault for requirement in requirements if (fault := find_fault(requirement))]
    remedy = f"pip install 'turnsmith[{name}]'" if faults else ""
    return MachineCheck(f"extra {name}", not faults, "; ".join([EXTRAS[name].purpose, *faults]), remedy)


def find_fault(requirement: Requirement) -> str:
    """Describe why the installed version of a package does not satisfy a requirement; empty if it does."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"no {requirement.name}"
    # A local build such as 2.13.0+cpu counts as 2.13.0.
    is_admitted = requirement.specifier.contains(version, prereleases=True)
    return "" if is_admitted else f"{requirement.name} {version}, wanted {requirement.specifier}"


def examine_accelerators(devices: Path = Path("/dev"), command: Sequence[str] = ASK_TORCH) -> MachineCheck:
    """Check that torch can use the machine's CUDA devices; passes if the machine has none."""
    found = ask_torch(command)
    if isinstance(found, str):
        return MachineCheck("accelerators", False, found, LEARNING_REMEDY)
    build, cards = found["build"], [f"{name}, {size / 2**30:.0f} GB" for name, size in found["devices"]]
    if cards:
        return MachineCheck("accelerators", True, f"{'; '.join(cards)} (torch {build})")
    if any(devices.glob("nvidia[0-9]*")):
        remedy = "install a torch built for CUDA, see pytorch.org, and its driver"
        return MachineCheck("accelerators", False, f"an NVIDIA device that torch {build} cannot use", remedy)
    return MachineCheck("accelerators", True, f"none, runs use the CPU (torch {build})")


def ask_torch(command: Sequence[str]) -> dict[str, Any] | str:
    """Ask a separate process for torch's build and CUDA devices; return them, or the reason of a failure."""
    try:
        return json.loads(run_program(command, "torch cannot be imported", timeout_s=TIMEOUT_S).splitlines()[-1])
    except UsageError as error:
        return str(error)


def examine_memory(meminfo: Path = Path("/proc/meminfo")) -> MachineCheck:
    """Check that free memory suffices for the model, its optimizer and the sandboxes."""
    remedy = "lower rollouts.concurrency, or free memory"
    return _compare_bytes("memory", read_available_bytes(meminfo), MIN_MEMORY_BYTES, remedy)


def examine_cores() -> MachineCheck:
    """Check the number of cores that this process may use."""
    cores = len(os.sched_getaffinity(0))
    remedy = "" if cores >= MIN_CORES else f"a run with fewer than {MIN_CORES} works, but takes longer"
    return MachineCheck("cores", cores >= MIN_CORES, str(cores), remedy)


def examine_openmp(library: str = "libgomp.so.1.0.0") -> MachineCheck:
    """Check that the library GNU OpenMP is installed. Without it the engine decodes on CPUs with slower torch kernels."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return MachineCheck("OpenMP", False, "no libgomp: decoding on CPUs takes longer", "apt-get install libgomp1")
    return MachineCheck("OpenMP", True, "libgomp")


def examine_disk(folder: Path = Path()) -> MachineCheck:
    """Check that free disk space suffices for a run folder."""
    free = shutil.disk_usage(folder).free
    return _compare_bytes("disk", free, MIN_DISK_BYTES, "free some space, or give --out a folder on another disk")


def examine_git() -> MachineCheck:
    """Check that git is installed and works."""
    remedy = "install git, e.g. `apt install git`"
    try:
        version = run_program(["git", "--version"], "git does not work").decode().strip()
    except UsageError as error:
        return MachineCheck("git", False, str(error), remedy)
    return MachineCheck("git", True, version.removeprefix("git version "))


def _compare_bytes(name: str, found: int, wanted: int, remedy: str) -> MachineCheck:
    free = f"{found / 2**30:.1f} GB free"
    if found >= wanted:
        return MachineCheck(name, True, free)
    return MachineCheck(name, False, f"{free}, {wanted / 2**30:.0f} GB needed", remedy)
