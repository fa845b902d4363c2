"""Readers of values in rows of public data sets, e.g. lists or JSON text of lists. They raise Refused for invalid values."""

import ast
import json
import re
import warnings
from typing import Any

from turnsmith.git.patches import BadDiff, FileDiff, parse_diff
from turnsmith.tasks.sets.base import Columns, Refused, Row

IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)
SHOWN = 60
"""Maximum number of characters of a value that an error message quotes."""


def describe_core(row: Row) -> Columns:
    """Read the task columns that most data sets name and format like SWE-bench. Raises Refused."""
    if row.get("layers"):
        raise Refused(
            "made by Turnsmith, has no image",
            "the row has local folders instead of an image: use the task file that it was exported from",
        )
    return {
        "instance_id": read_text(row, "instance_id"),
        "repo": read_text(row, "repo"),
        "base_commit": read_text(row, "base_commit"),
        "problem_statement": read_text(row, "problem_statement", name="issue text"),
        "patch": read_patch(row, "patch", name="gold patch"),
        "test_patch": read_patch(row, "test_patch", name="test patch") if row.get("test_patch") else "",
        **read_expected(row, "FAIL_TO_PASS", "PASS_TO_PASS"),
    }


def read_text(row: Row, column: str, name: str = "") -> str:
    """Return the text in a column of a row. Raises Refused if it is empty or not text."""
    value = row.get(column)
    if not isinstance(value, str | None):
        raise Refused(f"bad {name or column}", f"{column} is {_show(value)}, which is not text")
    if not value or not value.strip():
        raise Refused(f"no {name or column}", f"the column {column} is missing or empty")
    return value


def find_image(row: Row, *columns: str) -> str:
    """Return the image named in the first non-empty column. Raises Refused if there is none or it is invalid."""
    named: Any = next((row[column] for column in columns if row.get(column)), None)
    if named is None:
        raise Refused("no image", f"{' and '.join(columns)} {'is' if len(columns) == 1 else 'are'} missing or empty")
    return check_image(named)


def check_image(name: Any) -> str:
    """Check the name of a container image, and return it. Raises Refused if it is invalid."""
    if not isinstance(name, str) or not IMAGE.fullmatch(name):
        raise Refused("bad image", f"{str(name)[:SHOWN]!r} is not a valid image name")
    return name


def read_patch(row: Row, column: str, name: str) -> str:
    """Return the patch in a column of a row. Raises Refused if it is incomplete or invalid."""
    text = read_text(row, column, name)
    read_files(text, name)
    return text


def read_files(patch: str, name: str) -> list[FileDiff]:
    """Parse a patch into its changed files. Raises Refused with the patch's `name` if it is invalid."""
    try:
        return parse_diff(patch)
    except BadDiff as error:
        raise Refused(f"bad {name}", str(error)) from None


def read_expected(row: Row, failing: str, passing: str) -> Columns:
    """Read FAIL_TO_PASS from column `failing`, and PASS_TO_PASS from the rest of `passing`. Raises Refused."""
    fail_to_pass = read_list(row, failing)
    if not fail_to_pass:
        raise Refused(f"empty {failing}", "so no patch can resolve it")
    known = set(fail_to_pass)
    pass_to_pass = [test for test in read_list(row, passing) if test not in known]
    return {"FAIL_TO_PASS": fail_to_pass, "PASS_TO_PASS": pass_to_pass}


def read_list(row: Row, column: str) -> list[str]:
    """Return the strings in a column: a list or the keys of a dict, also as JSON or Python text. Raises Refused."""
    value = row.get(column)
    if isinstance(value, str):
        value = _read_literal(value)
    if isinstance(value, dict):
        value = [key for key, held in value.items() if held is not None]  # Arrow pads with nulls
    if column not in row:
        raise Refused(f"no {column}", f"the column {column} is missing")
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise Refused(
            f"unreadable {column}", f"{_show(row[column])} is not a list of strings, nor JSON or Python of one"
        )
    return value


def read_dict(row: Row, column: str) -> dict[str, Any]:
    """Return the dict in a column, also from JSON text; empty if the column is missing. Raises Refused."""
    value = row.get(column) or {}
    if isinstance(value, str):
        value = _read_literal(value)
    if not isinstance(value, dict):
        raise Refused(f"unreadable {column}", f"{_show(row[column])} is not an object, nor JSON of one")
    return value


def _read_literal(text: str) -> Any:
    """Parse a text as JSON or as a Python literal; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings(action="ignore"):  # invalid escape sequences
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
