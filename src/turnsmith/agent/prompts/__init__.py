"""Prompts as folders of three templates: `system`, `issue` and `demonstration` (paper §3.5, §3.6).

`paper` has the structure of the paper's prompts in our own words; `brief` has the same structure for tiny models; `bash` is
for the shell alone. The demonstration is shown only to a base model that collects (paper §3.3).
"""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from turnsmith.errors import UsageError

PACKAGED = Path(__file__).parent
"""Folder of the folders that come with the package."""


def fill_in(folder: Path, part: str, **values: Any) -> str:
    """One template of a folder with its values. Raises TemplateError, and UnicodeDecodeError for what is no text."""
    return _open(folder).get_template(f"{part}.jinja").render(values)


@cache
def _open(folder: Path) -> Environment:
    # Nothing is escaped: the text is for a model, not for a browser.
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def find_prompts(name: str) -> Path:
    """The folder of a packaged name, or of a path. Raises UsageError."""
    packaged = list_packaged()
    if name in packaged:
        return PACKAGED / name
    if not Path(name).is_dir():
        raise UsageError(f"no prompts {name!r}: agent.prompts is one of {', '.join(packaged)}, or the path of a folder")
    return Path(name)


def list_packaged() -> list[str]:
    """Names of the prompts that come with the package."""
    return sorted(folder.name for folder in PACKAGED.iterdir() if (folder / "system.jinja").exists())
