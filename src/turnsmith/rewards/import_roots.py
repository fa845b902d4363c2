"""Folders of a tree that the imports of its tests start from."""

import configparser
import os
import re
import shlex
import tomllib
from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from itertools import accumulate, product
from operator import getitem
from pathlib import Path, PurePosixPath
from typing import Any

_PATH = re.compile(r"PYTHONPATH=[\"']?([^\s\"']+)")
_STEP = re.compile(r"\bcd +[\"']?([^\s;&|\"']+)")
_TABLES = [
    ("pytest.ini", ["pytest"]),
    (".pytest.ini", ["pytest"]),
    ("tox.ini", ["pytest"]),
    ("setup.cfg", ["tool:pytest"]),
    ("pytest.toml", ["pytest"]),
    ("pyproject.toml", ["tool", "pytest"]),
    ("pyproject.toml", ["tool", "pytest", "ini_options"]),
]
"""Files of pytest's settings, and where they stand in each."""


def find_import_roots(test_files: Collection[str], command: str, layers: Sequence[Path]) -> frozenset[PurePosixPath]:
    """The root of the tree, `src`, the folder that pytest adds for each test file, what the command and the settings name.

    All of it in each folder that the command goes to, too.
    """
    steps = [folder for folder in _STEP.findall(command) if not folder.startswith("/")]
    starts = [*accumulate(["", *steps], os.path.join)]
    path = [folder for value in _PATH.findall(command) for folder in value.split(":")]
    named = [
        os.path.join(start, folder)  # noqa: PTH118
        for start in starts
        for folder in ("", "src", *path, *_find_in_settings([layer / start for layer in layers]))
    ]
    return frozenset(
        [
            *(PurePosixPath(os.path.normpath(folder)) for folder in named),
            *(_find_top(PurePosixPath(file).parent, layers) for file in test_files),
        ]
    )


def _find_in_settings(folders: Sequence[Path]) -> Iterator[str]:
    """The setting `pythonpath`, in whichever file."""
    for folder, (name, table) in product(folders, _TABLES):
        yield from _read_folders(folder / name, table)


def _read_folders(path: Path, table: Sequence[str]) -> list[str]:
    """Nothing where pytest could not read it either."""
    try:
        folders = reduce(getitem, [*table, "pythonpath"], _read_tables(path))
        return shlex.split(folders) if isinstance(folders, str) else [str(folder) for folder in folders]
    except (OSError, KeyError, TypeError, ValueError, configparser.Error):
        return []


def _read_tables(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return tomllib.loads(text)
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    return parser


def _find_top(folder: PurePosixPath, layers: Sequence[Path]) -> PurePosixPath:
    """The first folder upward that is no package."""
    while folder.name and any(os.path.lexists(layer / folder / "__init__.py") for layer in layers):
        folder = folder.parent
    return folder
