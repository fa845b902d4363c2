"""SWE-rebench V1, V2 and leaderboard, and SWE-bench-extra: rows contain their installation and test commands."""

from typing import Any

from turnsmith.tasks.sets.base import Columns, PublicSet, Refused, Row
from turnsmith.tasks.sets.cells import describe_core, find_image, read_dict
from turnsmith.tasks.sets.directives import begin_with_files, find_patched_tests
from turnsmith.tasks.sets.swe_bench import CONDA
from turnsmith.types import PYTEST


def describe(row: Row) -> Columns:
    """Map a row of SWE-rebench V1, of the SWE-rebench leaderboard or of SWE-bench-extra to task columns. Raises Refused."""
    core, config = describe_core(row), read_dict(row, "install_config")
    tests = [*core["FAIL_TO_PASS"], *core["PASS_TO_PASS"]]
    has_files = begin_with_files(tests)
    command = read_command(config)
    return core | {
        "image": find_image(row, "image_name", "docker_image"),
        "test_command": CONDA + command,
        "test_files": [] if has_files else find_patched_tests(core["test_patch"]),
        "log_parser": PYTEST if has_files and PYTEST in command else config.get("log_parser") or "parse_log_pytest",
        "status_rules": "swe-bench",
        "meta": read_dict(row, "meta"),
    }


def describe_v2(row: Row) -> Columns:
    """Map a row of V2 (twenty languages) to task columns. Images hold the working tree in `/<repository>`. Raises Refused."""
    core, config = describe_core(row), read_dict(row, "install_config")
    return core | {
        "image": find_image(row, "image_name"),
        "workdir": f"/{core['repo'].rpartition('/')[2]}",
        "test_command": read_command(config),
        "log_parser": config.get("log_parser") or "",
        "status_rules": "swe-rebench-v2",
        "meta": read_dict(row, "meta"),
    }


def read_command(config: dict[str, Any]) -> str:
    """Return the test command of a row; several commands are joined by `&&`. Raises Refused if there is none."""
    command = config.get("test_cmd")
    lines = [command] if isinstance(command, str) else command
    if (
        not isinstance(lines, list)
        or not all(isinstance(line, str) for line in lines)
        or not any(map(str.strip, lines))
    ):
        raise Refused("no test command", "install_config.test_cmd is missing or empty")
    return " && ".join(line.strip() for line in lines if line.strip())


SWE_REBENCH = PublicSet(
    "swe-rebench", frozenset({"instance_id", "repo", "base_commit", "patch", "test_patch", "install_config"}), describe
)
SWE_REBENCH_V2 = PublicSet(
    "swe-rebench-v2",
    frozenset({"instance_id", "patch", "test_patch", "install_config", "language", "interface"}),
    describe_v2,
)
