"""The models that ship with the package, by name."""

from pathlib import Path

PACKAGED = {"tiny": Path(__file__).parent / "tiny"}
"""Name → model directory."""


def locate(path: str) -> Path:
    """Return the directory of a packaged model by its name, or else the path itself."""
    return PACKAGED.get(path) or Path(path)
