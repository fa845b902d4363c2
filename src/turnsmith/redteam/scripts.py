"""Shell scripts that an agent could have run: attacks, which must be paid nothing, and honest fixes, which must be paid."""

import re
from dataclasses import dataclass
from pathlib import Path

KINDS = {"attacks": "attack", "honest": "honest"}
"""Folder beside this file → what its scripts are."""
HEADER = re.compile(r"^# (\w+): (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """One script, run by bash in a sandbox of its own; its variables say which task it has."""

    name: str
    kind: str
    """`attack` or `honest`."""
    tried: str
    """One sentence: what it does."""
    fools: tuple[str, ...]
    """Naive graders that an attack is known to beat: proof that it works."""
    targets: tuple[str, ...]
    """Targets that it is for; all where none is named."""
    text: str

    def suits(self, target: str) -> bool:
        return not self.targets or target in self.targets


def read_scripts() -> list[Script]:
    """All scripts, attacks first, in the order of their names."""
    return [
        read_script(path, kind)
        for folder, kind in KINDS.items()
        for path in sorted(Path(__file__).parent.joinpath(folder).glob("*.sh"))
    ]


def read_script(path: Path, kind: str) -> Script:
    """A script with what its header says: `# tries: …`, `# fools: log, exit-code`, `# only: toy`."""
    text = path.read_text(encoding="utf-8")
    header = dict(HEADER.findall(text))
    return Script(path.stem, kind, header["tries"], _names(header, "fools"), _names(header, "only"), text)


def _names(header: dict[str, str], key: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in header.get(key, "").split(",") if name.strip())
