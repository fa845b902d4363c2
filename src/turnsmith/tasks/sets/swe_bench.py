"""SWE-bench up to version 4 (full, Lite, Verified, Multilingual) and SWE-Gym. Rows name neither image nor test command."""

from functools import partial

from turnsmith.tasks.sets.base import Columns, PublicSet, Row
from turnsmith.tasks.sets.cells import check_image, describe_core, read_text
from turnsmith.tasks.sets.directives import find_rule

CONDA = "source /opt/miniconda3/bin/activate testbed && "
"""Prefix of test commands that activates the conda environment in images of SWE-bench and derived data sets."""


def describe(row: Row, owner: str = "swebench", separator: str = "_1776_") -> Columns:
    """Map a row to task columns, with the image and test command that SWE-bench's harness uses. Raises Refused.

    Image: `<owner on Docker Hub>/sweb.eval.x86_64.<id>:latest`, where `separator` replaces the `__` of the id.
    """
    core = describe_core(row) | {"test_patch": read_text(row, "test_patch", name="test patch")}
    rule = find_rule(core["repo"], str(row.get("version") or ""))
    directives = rule.find_directives(core["test_patch"], [*core["FAIL_TO_PASS"], *core["PASS_TO_PASS"]])
    name = core["instance_id"].lower().replace("__", separator)
    return core | {
        "image": check_image(f"{owner}/sweb.eval.x86_64.{name}:latest"),
        "test_command": CONDA + rule.command,
        "log_parser": rule.parser,
        "test_files": directives,
        "status_rules": "swe-bench",
    }


SWE_BENCH = PublicSet(
    "swe-bench",
    frozenset({"instance_id", "repo", "base_commit", "patch", "test_patch", "version", "environment_setup_commit"}),
    describe,
)
SWE_GYM = PublicSet(
    "swe-gym",
    frozenset({"instance_id", "repo", "base_commit", "patch", "test_patch", "version"}),
    partial(describe, owner="xingyaoww", separator="_s_"),
)
