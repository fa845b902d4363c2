"""SWE-bench up to version 4: full, Lite, Verified, Multilingual. Rows name neither image nor test command."""

from turnsmith.tasks.sets.base import Columns, PublicSet, Row
from turnsmith.tasks.sets.cells import describe_core, read_text
from turnsmith.tasks.sets.directives import find_rule
from turnsmith.tasks.sets.images import name_of_swe_bench

CONDA = "source /opt/miniconda3/bin/activate testbed && "
"""Prefix of test commands in images of SWE-bench and derived sets, which have a conda environment."""


def describe(row: Row) -> Columns:
    """Map a row to task columns by SWE-bench's rules. Raises Refused."""
    return describe_suite(row) | {"image": name_of_swe_bench(read_text(row, "instance_id"))}


def describe_suite(row: Row) -> Columns:
    """Map all columns but the image, with the test command of SWE-bench's harness. Raises Refused."""
    core = describe_core(row) | {"test_patch": read_text(row, "test_patch", name="test patch")}
    rule = find_rule(core["repo"], str(row.get("version") or ""))
    directives = rule.find_directives(core["test_patch"], [*core["FAIL_TO_PASS"], *core["PASS_TO_PASS"]])
    return core | {
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
