"""SWE-smith: a row's `patch` adds a bug to a clean tree, so its reverse is the gold patch. Images are per repository.

The set-up applies the bug's patch. The images' git branches with bugs are not used, because most are missing.
"""

from shlex import quote
from typing import Any

from turnsmith.git.patches import BadDiff, render_diff, reverse_diff
from turnsmith.tasks.sets.base import Columns, PublicSet, Refused, Row
from turnsmith.tasks.sets.cells import check_image, find_image, read_expected, read_files, read_text
from turnsmith.tasks.sets.directives import names_file
from turnsmith.tasks.sets.swe_bench import CONDA

MAX_BUG = 100_000
"""Maximum size in bytes of a bug's patch. Rows with a larger one are refused, since a set-up command contains its text."""


def describe(row: Row) -> Columns:
    """Map a row to task columns. The set-up adds the bug; the gold patch removes it. Raises Refused."""
    bug = read_text(row, "patch", name="bug patch")
    if len(bug.encode(errors="replace")) > MAX_BUG:
        raise Refused("bug patch too large", f"more than {MAX_BUG} bytes")
    expected = read_expected(row, "FAIL_TO_PASS", "PASS_TO_PASS")
    check_python(expected)
    try:
        gold = render_diff(reverse_diff(read_files(bug, "bug patch")))
    except BadDiff as error:
        raise Refused("bad bug patch", str(error)) from None
    return expected | {
        "instance_id": read_text(row, "instance_id"),
        "repo": read_text(row, "repo"),
        "base_commit": row.get("base_commit") or "",
        "problem_statement": read_text(row, "problem_statement", name="issue text"),
        "patch": gold,
        "image": name_of_swe_smith(find_image(row, "image_name")),
        "setup": [f"printf %s {quote(bug)} | git apply --whitespace=nowarn -"],
        "test_command": f"{CONDA}pytest -rA",
        "status_rules": "swe-bench",
    }


def name_of_swe_smith(named: str) -> str:
    """Convert an image name in a row to the name on Docker Hub: `x/swesmith.o__n.123` → `swebench/swesmith.o_1776_n.123`."""
    name = named.rpartition("/")[2].lower().replace("__", "_1776_")
    return check_image(f"swebench/{name}")


def check_python(expected: dict[str, Any]) -> None:
    """Raise Refused unless all tests have pytest ids. Rows do not contain test commands for other languages."""
    tests = [*expected["FAIL_TO_PASS"], *expected["PASS_TO_PASS"]]
    if other := next((test for test in tests if not names_file(test)), None):
        raise Refused("no test command", f"{other!r} is not a pytest id, and the row names no test command")


SWE_SMITH = PublicSet("swe-smith", frozenset({"instance_id", "repo", "patch", "FAIL_TO_PASS", "image_name"}), describe)
