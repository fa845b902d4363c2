"""House rules: import levels, cheap imports, names of modules and classes."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import turnsmith

ROOT = Path(__file__).parent.parent
HEAVY = {"torch", "ray", "transformers", "scipy", "matplotlib", "libcst"}


def imported_by(*arguments: str) -> set[str]:
    """Return the top-level modules that a command imports in a new interpreter."""
    command = [sys.executable, "-X", "importtime", "-m", "turnsmith", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}


def test_imports_go_down_only():
    command = [Path(sys.executable).with_name("lint-imports"), "--config", ROOT / "pyproject.toml"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def read_levels() -> dict[str, int]:
    """Level of each room by the contract of import-linter, 0 the highest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return {room.strip(): level for level, rooms in enumerate(layers) for room in rooms.split("|")}


ANY = "any room"


def read_strings(node: ast.AST) -> list[str]:
    """Strings of a module; the computed parts of an f-string are written as `{}`."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        return ["".join(parts)] + [
            text for part in node.values if not isinstance(part, ast.Constant) for text in read_strings(part)
        ]
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [text for child in ast.iter_child_nodes(node) for text in read_strings(child)]


def name_rooms(text: str) -> set[str]:
    """Rooms that a text names by an import path, such as `turnsmith.algo.dapo:DAPO`, `{}.algo.dapo` or `.algo.dapo`."""
    source = Path(turnsmith.__file__).parent
    absolute = re.findall(r"\bturnsmith(?:\.| import )(\w+|\{\})", text)
    relative = re.findall(r"(?:^|(?<=\{\}))\.{0,2}((\w+)\.\w+)(?:[.:]\w+)*$", text)
    named = [room for path, room in relative if list(source.glob(f"{path.replace('.', '/')}*")) or room == "{}"]
    return {ANY if room == "{}" else room for room in (*absolute, *named)}


@pytest.mark.parametrize(
    ("code", "rooms"),
    [
        ("load('turnsmith.algo.dapo:DAPO')", {"algo"}),
        ("load(f'turnsmith.algo.{name}')", {"algo"}),
        ("load(f'turnsmith.{room}.names')", {ANY}),
        ("load(f'{root}.algo.dapo:DAPO')", {"algo"}),
        ("load('.algo.dapo', 'turnsmith')", {"algo"}),
        ("load('algo.dapo:DAPO')", {"algo"}),
        ("load('numpy.random')", set()),
    ],
)
def test_strings_that_name_a_room_are_found(code, rooms):
    assert {room for text in read_strings(ast.parse(code)) for room in name_rooms(text)} == rooms


def test_no_string_names_a_module_of_a_higher_room():
    source, levels = Path(turnsmith.__file__).parent, read_levels()
    assert {"cli", "sandboxes", "types"} <= levels.keys()
    wrong = [
        f"{file.relative_to(source)} names {named}"
        for file in source.rglob("*.py")
        if (room := file.relative_to(source).with_suffix("").parts[0]) in levels
        for text in read_strings(ast.parse(file.read_text()))
        for named in name_rooms(text) & {*levels, ANY} - {room}
        if named == ANY or levels[named] <= levels[room]
    ]
    assert wrong == []


def test_each_package_has_a_docstring_and_there_are_at_most_27_rooms():
    source = Path(turnsmith.__file__).parent
    assert [
        str(path) for path in source.rglob("__init__.py") if not ast.get_docstring(ast.parse(path.read_text()))
    ] == []
    rooms = {path.stem for path in source.glob("*.py")} | {path.parent.name for path in source.glob("*/__init__.py")}
    assert len(rooms - {"__init__", "__main__"}) <= 27


def test_help_and_dry_run_import_no_heavy_package():
    assert not HEAVY & imported_by("--help")
    assert not HEAVY & imported_by("run", str(ROOT / "configs" / "laptop.toml"), "--dry-run")


def test_public_class_names_are_unique():
    files = Path(turnsmith.__file__).parent.rglob("*.py")
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))
    counts = Counter(node.name for node in nodes if not node.name.startswith("_"))
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_module_has_a_catch_all_name():
    names = {path.stem for path in Path(turnsmith.__file__).parent.rglob("*.py")}
    assert not names & {"utils", "common", "core", "helpers", "manager"}
