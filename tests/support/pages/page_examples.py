"""Examples of docs/extending.md as files."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "extending.md"
BLOCK = re.compile(r"^(`{3,})\w+\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?:# |\{# )([\w/]+\.\w+)(?: #\})?\n")


def write_examples(folder: Path) -> set[str]:
    """Write each block that names a file in its first line. Return the names."""
    named = {match[1]: text for _, text in BLOCK.findall(PAGE.read_text()) if (match := NAMED.match(text))}
    for name, text in named.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return set(named)
