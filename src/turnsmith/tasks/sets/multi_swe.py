"""Multi-SWE-bench and Multi-SWE-RL: rows hold test results before and after the gold patch.

The images contain the gold patch, the test patch and scripts. The set-up removes them, except the script `run.sh`.
"""

from typing import Any

from turnsmith.tasks.sets.base import Columns, PublicSet, Refused, Row
from turnsmith.tasks.sets.cells import check_image, read_files, read_list, read_patch, read_text

REMOVE = "rm -f /home/*.patch /home/fix-run.sh /home/test-run.sh"
PARSERS = {
    ".go": "parse_log_gotest",
    ".rs": "parse_log_cargo",
    ".java": "multi-swe-java",
    ".kt": "multi-swe-java",
    ".ts": "multi-swe-javascript",
    ".tsx": "multi-swe-javascript",
    ".js": "multi-swe-javascript",
    ".vue": "multi-swe-javascript",
    ".c": "multi-swe-c",
    ".cc": "multi-swe-c",
    ".cpp": "multi-swe-c",
    ".hpp": "multi-swe-c",
    ".h": "multi-swe-c",
    ".py": "parse_log_pytest",
}
"""Most common file name ending in the gold patch → parser of the test log. Rows name neither their language nor a parser."""


def describe(row: Row) -> Columns:
    """Map a row to task columns. The task's issue consists of all issues that the row resolves. Raises Refused."""
    org, repo = read_text(row, "org"), read_text(row, "repo")
    fixed = read_list(row, "fixed_tests")
    if not fixed:
        raise Refused("empty fixed_tests", "so no patch can resolve it")
    patch = read_patch(row, "fix_patch", name="gold patch")
    return {
        "instance_id": identify(row),
        "repo": f"{org}/{repo}",
        "base_commit": read_base(row),
        "problem_statement": describe_issues(row),
        "FAIL_TO_PASS": fixed,
        "PASS_TO_PASS": [test for test in read_list(row, "p2p_tests") if test not in set(fixed)],
        "patch": patch,
        "test_patch": read_patch(row, "test_patch", name="test patch"),
        "image": check_image(f"mswebench/{org}_m_{repo}:pr-{row.get('number')}".lower()),
        "workdir": f"/home/{repo}",
        "setup": [REMOVE],
        "test_command": "bash /home/run.sh",
        "log_parser": find_parser(patch),
        "status_rules": "multi-swe",
    }


def identify(row: Row) -> str:
    """Return the task id, such as `google__gson-1093`."""
    return str(row.get("instance_id") or f"{row.get('org')}__{row.get('repo')}-{row.get('number')}".lower())


def read_base(row: Row) -> str:
    """Return the base commit of a row. Raises Refused if there is none."""
    base: Any = row.get("base")
    if not isinstance(base, dict) or not isinstance(base.get("sha"), str) or not base["sha"]:
        raise Refused("no base_commit", "base.sha is missing or empty")
    return str(base["sha"])


def describe_issues(row: Row) -> str:
    """Join the titles and texts of the issues that the row resolves. Raises Refused if there are none."""
    issues = row.get("resolved_issues")
    texts = [
        f"{each.get('title') or ''}\n\n{each.get('body') or ''}".strip()
        for each in issues or []
        if isinstance(each, dict)
    ]
    if not any(texts):
        raise Refused("no issue text", "resolved_issues is missing or empty")
    return "\n\n".join(filter(None, texts))


def find_parser(patch: str) -> str:
    """Return the parser of test logs for the language of most files in the gold patch. Raises Refused."""
    endings = [f".{file.path.rpartition('.')[2]}" for file in read_files(patch, "gold patch")]
    known = [PARSERS[ending] for ending in endings if ending in PARSERS]
    if not known:
        raise Refused("unknown language", f"no file of the fix has a known language: {', '.join(endings)}")
    return max(known, key=known.count)


MULTI_SWE = PublicSet(
    "multi-swe",
    frozenset({"org", "repo", "number", "base", "fix_patch", "test_patch", "fixed_tests", "resolved_issues"}),
    describe,
    identify,
)
