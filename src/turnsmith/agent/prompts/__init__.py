"""Prompts as folders of three templates: `system`, `issue` and `demonstration` (paper §3.5, §3.6).

`paper` has the structure of the paper's prompts, with different wording. `brief` is a short form of `paper` for tiny models,
and `bash` describes the shell alone. The demonstration is shown only while RFT collects trajectories (paper §3.3).
"""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from turnsmith.errors import UsageError

PACKAGED = Path(__file__).parent
"""Folder of the prompts that are part of Turnsmith."""


def fill_in(folder: Path, part: str, **values: Any) -> str:
    """Render one template of a prompts folder with values. Raises TemplateError, or UnicodeDecodeError for a binary file."""
    return _open(folder).get_template(f"{part}.jinja").render(values)


@cache
def _open(folder: Path) -> Environment:
    # no escaping: the text is for a model, not a browser
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def find_prompts(name: str) -> Path:
    """Return the folder of prompts, given by a packaged name or a path. Raises UsageError."""
    packaged = list_packaged()
    if name in packaged:
        return PACKAGED / name
    if not Path(name).is_dir():
        raise UsageError(f"agent.prompts {name!r} does not exist: give {', '.join(packaged)}, or the path of a folder")
    return Path(name)


def list_packaged() -> list[str]:
    """List the names of the packaged prompts."""
    return sorted(folder.name for folder in PACKAGED.iterdir() if (folder / "system.jinja").exists())
