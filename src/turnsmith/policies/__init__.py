"""Models that ship with the package, by name.

`locate` returns the directory of such a model. `tiny` is the policy of the demo. Any part may import this package. It
knows only names and paths, and never loads a model.
"""

from pathlib import Path

PACKAGED = {"tiny": Path(__file__).parent / "tiny"}
"""Name → model directory."""


def locate(path: str) -> Path:
    """Return the directory of a packaged model by its name, or else the path itself."""
    return PACKAGED.get(path) or Path(path)
