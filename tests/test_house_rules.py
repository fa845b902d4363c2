"""House rules: import levels, cheap imports, names of modules and classes."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import turnsmith

ROOT = Path(__file__).parent.parent
HEAVY = {"torch", "transformers", "scipy", "matplotlib", "libcst"}


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
