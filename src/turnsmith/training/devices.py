"""Where a model computes, and how much memory is free there."""

from pathlib import Path

import torch

from turnsmith.errors import UsageError


def find_device(name: str) -> torch.device:
    """The device of `auto`, `cpu` or `cuda`. Raises UsageError where CUDA is asked for and absent."""
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise UsageError(
            f"model.device is cuda, but torch {torch.__version__} sees no CUDA device here: use auto or cpu, or install a "
            "build of torch for the driver of this machine"
        )
    return torch.device("cpu" if name == "cpu" or not has_cuda else "cuda")


def free_bytes(device: torch.device) -> float:
    """Memory that is free on a device; on a CPU what the kernel calls available, within the bound of a container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(_available_bytes(), _unused_of_group())


def _available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    [kilobytes] = [line.split()[1] for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:")]
    return 1024 * int(kilobytes)


def _unused_of_group(group: Path = Path("/sys/fs/cgroup")) -> float:
    """What a control group's bound leaves, where there is one."""
    bound = group / "memory.max"
    if not bound.is_file() or bound.read_text().strip() == "max":
        return float("inf")
    return int(bound.read_text()) - int((group / "memory.current").read_text())
