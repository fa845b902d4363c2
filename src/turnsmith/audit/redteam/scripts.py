"""Shell scripts that an agent could have run: attacks, which must be paid nothing, and honest fixes, which must be paid."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import turnsmith
from turnsmith.errors import UsageError

CHECKOUT = Path(turnsmith.__file__).parents[2] / "redteam"
"""The scripts of the repository that an editable installation runs from; no wheel holds them."""
KINDS = {"attacks": "attack", "honest": "honest"}
"""Folder → what its scripts are."""
LAYERS = ("verdict", "audit")
HEADER = re.compile(r"^# (\w+): (.+)$", re.MULTILINE)

When = Literal["all", "suspicious", "off"]
"""Which resolved patches are audited before they are paid."""
TargetName = Literal["toy", "package"]
"""What is attacked."""


@dataclass(frozen=True)
class Script:
    """One script, run by bash in a sandbox of its own; its variables describe the task."""

    name: str
    kind: str
    """`attack` or `honest`."""
    tries: str
    """One sentence: what it does."""
    layer: str
    """`verdict` or `audit`: what stops an attack; empty for an honest script."""
    only: str
    """The target that it is for; all where it is empty."""
    text: str

    @property
    def row(self) -> dict[str, str]:
        """What tables say of it."""
        return {"name": self.name, "kind": self.kind, "layer": self.layer, "tries": self.tries}


def find_folder(given: Path | None) -> Path:
    """The folder of the scripts: the given one, or that of the checkout. Raises UsageError."""
    folder = given or CHECKOUT
    if missing := [name for name in KINDS if not folder.joinpath(name).is_dir()]:
        raise UsageError(
            f"no folder {missing[0]!r} in {folder}: give --scripts with the folder 'redteam' of a checkout of Turnsmith"
        )
    return folder


def read_scripts(folder: Path, names: Collection[str] = ()) -> list[Script]:
    """The scripts of these names, or all, attacks first. Raises UsageError, also for a name that no script has."""
    scripts = [read_script(path, KINDS[name]) for name in KINDS for path in sorted(folder.joinpath(name).glob("*.sh"))]
    if unknown := sorted(set(names) - {script.name for script in scripts}):
        raise UsageError(f"no script is named {unknown[0]!r}: `turnsmith redteam --list` shows all of them")
    return [script for script in scripts if not names or script.name in names]


def read_script(path: Path, kind: str) -> Script:
    """A script with its header: `# tries: …`, `# layer: audit`, `# only: toy`. Raises UsageError."""
    text = path.read_text(encoding="utf-8")
    header = dict(HEADER.findall(text))
    layer = header.get("layer", "")
    if "tries" not in header or (kind == "attack" and layer not in LAYERS):
        raise UsageError(
            f"{path} needs a header: '# tries: …' and, for an attack, '# layer: verdict' or '# layer: audit'"
        )
    return Script(path.stem, kind, header["tries"], layer, header.get("only", ""), text)
