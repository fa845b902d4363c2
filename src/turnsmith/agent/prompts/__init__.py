"""Prompts as folders of three templates: `system`, `issue` and `demonstration` (paper §3.5, §3.6).

`paper` has the structure of the paper's prompts in our own words; `brief` has the same structure for tiny models. A folder of
one's own needs the same three files. The demonstration is shown only to a base model that collects (paper §3.3).
"""

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, TemplateError

from turnsmith.agent.tools.base import Workspace
from turnsmith.agent.tools.toolbox import TOOLS
from turnsmith.errors import UsageError

_PACKAGED = Path(__file__).parent


@dataclass(frozen=True)
class Prompts:
    """The three templates of one folder."""

    system_template: Template
    issue_template: Template
    demonstration_template: Template

    def system(self, demonstration: bool = False) -> str:
        """The system message; it is the same for every task."""
        system = self.system_template.render(tools=list(TOOLS.values()))
        return f"{system}\n\n{self.demonstration_template.render()}" if demonstration else system

    def issue(self, problem_statement: str, cwd: str) -> str:
        """The first user message: the issue, advice, and the shell prompt."""
        return self.issue_template.render(
            problem_statement=problem_statement.strip(), cwd=cwd, prompt_line=Workspace(cwd).prompt_line
        )


def load_prompts(name: str) -> Prompts:
    """Prompts of a packaged folder or of a path. Raises UsageError where there are none."""
    folder = _find_folder(name)
    # Nothing is escaped: the text is for a model, not for a browser.
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    try:
        prompts = Prompts(*(environment.get_template(f"{part}.jinja") for part in ("system", "issue", "demonstration")))
        prompts.system(demonstration=True)
        prompts.issue("", "/")
        return prompts
    except (TemplateError, UnicodeDecodeError) as error:
        raise UsageError(
            f"prompts {folder}: cannot use {error}: the folder needs system, issue and demonstration.jinja"
        ) from None


def list_packaged() -> list[str]:
    """Names of the prompts that come with the package."""
    return sorted(folder.name for folder in _PACKAGED.iterdir() if (folder / "system.jinja").exists())


def _find_folder(name: str) -> Path:
    packaged = list_packaged()
    if name in packaged:
        return _PACKAGED / name
    if not Path(name).is_dir():
        raise UsageError(f"no prompts {name!r}: agent.prompts is one of {', '.join(packaged)}, or the path of a folder")
    return Path(name)
