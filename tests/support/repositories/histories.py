"""Small git histories with real commits."""

import os
import subprocess
from pathlib import Path

WHO = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def git(folder, *arguments, date="2024-05-03T12:00:00+00:00"):
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    command = ["git", "-C", str(folder), *arguments]
    result = subprocess.run(command, env={**os.environ, **WHO, **dates}, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def start(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def commit(folder: Path, files, message, **when) -> str:
    """Write files (None removes one) and commit all. Return the commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message, **when)
    return git(folder, "rev-parse", "HEAD")


PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "shop"
version = "1.0"
requires-python = ">=3.8"
[project.optional-dependencies]
test = ["pytest"]
[tool.setuptools]
packages = ["shop"]
package-dir = {"" = "src"}
"""
PRICES = "def total(prices):\n    return sum(prices)\n"
FIXED = "def total(prices):\n    return sum(price for price in prices if price is not None)\n"
TEST = "from shop.prices import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
MORE = TEST + "\n\ndef test_without_a_price():\n    assert total([1, None]) == 1\n"


def make_shop(folder: Path) -> Path:
    """Make four commits: a project, a fix with its test, a change of notes only, a change of tests only."""
    start(folder)
    first = {
        "pyproject.toml": PROJECT,
        "src/shop/__init__.py": "",
        "src/shop/prices.py": PRICES,
        "tests/test_prices.py": TEST,
    }
    commit(folder, first, "Begin")
    fix = "Add up what has a price\n\nA price may be missing, and then `total` ends with a TypeError. Fixes #7"
    commit(folder, {"src/shop/prices.py": FIXED, "tests/test_prices.py": MORE}, fix)
    commit(folder, {"README.md": "A shop.\n"}, "Say what it is")
    commit(
        folder, {"tests/test_prices.py": MORE + "\n\ndef test_nothing():\n    assert total([]) == 0\n"}, "Test nothing"
    )
    return folder
