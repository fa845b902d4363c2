"""Memory of this machine."""

from pathlib import Path


def read_available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Read the number of bytes that Linux can give to new processes."""
    [kilobytes] = [line.split()[1] for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable:")]
    return 1024 * int(kilobytes)
