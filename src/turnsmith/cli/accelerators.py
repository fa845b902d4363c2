"""What torch can compute on here. It is asked in a process of its own: a driver that fails takes only that one with it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnsmith.sandboxes.probes import MachineCheck

NAME = "accelerators"
TIMEOUT_S = 120.0
"""Torch can take long where its files are read for the first time."""
QUESTION = """
import json, torch
devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
properties = [torch.cuda.get_device_properties(device) for device in devices]
print(json.dumps({"build": torch.__version__, "devices": [(found.name, found.total_memory) for found in properties]}))
"""
COMMAND = (sys.executable, "-c", QUESTION)


def examine_accelerators(devices: Path = Path("/dev"), command: Sequence[str] = COMMAND) -> MachineCheck:
    """CUDA devices and their memory; none is well, unless the machine has one that torch cannot use."""
    found = ask_torch(command)
    if isinstance(found, str):
        return MachineCheck(NAME, False, found, "pip install 'turnsmith[train]'")
    build, cards = found["build"], [f"{name}, {size / 2**30:.0f} GB" for name, size in found["devices"]]
    if cards:
        return MachineCheck(NAME, True, f"{'; '.join(cards)} (torch {build})")
    if any(devices.glob("nvidia[0-9]*")):
        remedy = "install a torch built for CUDA, see pytorch.org, and its driver"
        return MachineCheck(NAME, False, f"an NVIDIA device that torch {build} cannot use", remedy)
    return MachineCheck(NAME, True, f"none, runs use the CPU (torch {build})")


def ask_torch(command: Sequence[str]) -> dict[str, Any] | str:
    """Build and devices, or why there is no answer."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"torch gave no answer in {TIMEOUT_S:.0f} s"
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or [f"it ended with {result.returncode}"])[-1]
        return f"torch cannot be asked: {last}"
    return json.loads(result.stdout.splitlines()[-1])
