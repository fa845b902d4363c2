"""Shell scripts of the red team: attacks, which must not be rewarded, and honest fixes, which must be rewarded."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import turnsmith
from turnsmith.errors import UsageError

CHECKOUT = Path(turnsmith.__file__).parents[2] / "redteam"
"""Folder of the scripts, if Turnsmith is installed from a checkout; wheels do not contain it."""
KINDS = {"attacks": "attack", "honest": "honest"}
"""Name of a folder → kind of its scripts."""
DEFENCES = ("verdict", "audit")
"""Checks that can stop an attack; the header `# layer:` of a script names one."""
HEADER = re.compile(r"^# (\w+): (.+)$", re.MULTILINE)

When = Literal["all", "suspicious", "off"]
"""Choice of the resolved patches that are audited before a reward: all, those with suspicious lines, or none."""
TargetName = Literal["toy", "package"]


@dataclass(frozen=True)
class Script:
    """Bash script of the red team. It runs in a new sandbox, with variables that describe the task."""

    name: str
    kind: str
    """Kind of the script: `attack` or `honest`."""
    tries: str
    """One line that describes the attack or the honest change."""
    layer: str
    """Defence that stops the attack, `verdict` or `audit`; empty for an honest script."""
    only: str
    """Target for which the script is written; empty for all targets."""
    text: str

    @property
    def row(self) -> dict[str, str]:
        return {"name": self.name, "kind": self.kind, "layer": self.layer, "tries": self.tries}


def find_folder(given: Path | None) -> Path:
    """Return the given script folder, or that of the checkout. Raises UsageError if there is none."""
    folder = given or CHECKOUT
    if missing := [name for name in KINDS if not folder.joinpath(name).is_dir()]:
        raise UsageError(
            f"no folder {missing[0]!r} in {folder}: give --scripts with the folder 'redteam' of a checkout of Turnsmith"
        )
    return folder


def read_scripts(folder: Path, names: Collection[str] = ()) -> list[Script]:
    """Read the scripts with the given names, or all scripts; attacks first. Raises UsageError for an unknown name."""
    scripts = [read_script(path, KINDS[name]) for name in KINDS for path in sorted(folder.joinpath(name).glob("*.sh"))]
    if unknown := sorted(set(names) - {script.name for script in scripts}):
        raise UsageError(f"no script is named {unknown[0]!r}: `turnsmith redteam --list` shows all of them")
    return [script for script in scripts if not names or script.name in names]


def read_script(path: Path, kind: str) -> Script:
    """Read a script with its header: `# tries: …`, `# layer: audit`, `# only: toy`. Raises UsageError."""
    text = path.read_text(encoding="utf-8")
    header = dict(HEADER.findall(text))
    layer = header.get("layer", "")
    if "tries" not in header or (kind == "attack" and layer not in DEFENCES):
        raise UsageError(
            f"{path} needs a header: '# tries: …' and, for an attack, '# layer: verdict' or '# layer: audit'"
        )
    return Script(path.stem, kind, header["tries"], layer, header.get("only", ""), text)
