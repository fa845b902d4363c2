"""R2E-Gym: commits with generated tests. A row holds the test logs before and after its commit.

The images hold the tests in /r2e_tests, where an agent could read them. The set-up removes that folder. For grading, the test
patch adds the tests, whose text is in the row.
"""

import re
from typing import Any

from turnsmith.git.patches import DiffHunk, FileDiff, add_file, render_diff
from turnsmith.tasks.sets.base import Columns, PublicSet, Refused, Row
from turnsmith.tasks.sets.cells import find_image, read_dict, read_text

FOLDER, PYTHON = "r2e_tests", ".venv/bin/python -W ignore"
SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
RESULT = re.compile(r"^(PASSED|FAILED|ERROR) +(\S+?::.*)$", re.MULTILINE)
TEST_FILE = re.compile(r"(.*/)?(tests?/.*|test_[^/]*\.py|[^/]*_test\.py|conftest\.py)")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
RUNNER = re.compile(r"\w+_runner\.py")
"""Pattern of the name of a custom test script, which some repositories (pillow, tornado) use instead of pytest."""
MARKS = {"added": "+", "deleted": "-", "context": " "}
IN_ISSUE = re.compile(r"\s*\[ISSUE\](.*)\[/ISSUE\]\s*", re.DOTALL)


def describe(row: Row) -> Columns:
    """Map a row to task columns; FAIL_TO_PASS and PASS_TO_PASS come from the test logs in the row. Raises Refused."""
    run, commit = read_dict(row, "execution_result_content"), read_dict(row, "parsed_commit_content")
    image, issue = find_image(row, "docker_image"), read_text(row, "problem_statement", name="issue text")
    return find_expected(row, run) | {
        "instance_id": identify(row),
        "repo": read_text(row, "repo_name"),
        "base_commit": str(commit.get("old_commit_hash") or f"{read_text(row, 'commit_hash')}^"),
        "problem_statement": found[1].strip() if (found := IN_ISSUE.fullmatch(issue)) else issue,
        "patch": render_commit(commit),
        "test_patch": render_tests(run),
        "image": image,
        "setup": [f"rm -rf /{FOLDER} {FOLDER} run_tests.sh"],
        "status_rules": "r2e-gym",
        **describe_command(run),
    }


def describe_command(run: dict[str, Any]) -> Columns:
    """Return the test command: the script `*_runner.py` if the test files include one, else pytest."""
    if runner := next(filter(RUNNER.fullmatch, run["test_file_names"]), None):
        return {"test_command": f"{PYTHON} {FOLDER}/{runner}", "log_parser": "lines"}
    return {"test_command": f"{PYTHON} -m pytest -rA", "test_files": [FOLDER]}


def identify(row: Row) -> str:
    """Return the task id of a row, or build one from repository and commit: `aiohttp_216e082807d0`."""
    named = row.get("instance_id")
    return str(named or f"{row.get('repo_name')}_{str(row.get('commit_hash'))[:12]}")


def find_expected(row: Row, run: dict[str, Any]) -> Columns:
    """Sort tests that pass after the commit into FAIL_TO_PASS and PASS_TO_PASS, by their results before it. Raises Refused."""
    expected = {COLOUR.sub("", name): word for name, word in read_dict(row, "expected_output_json").items()}
    before, after = (read_results(str(run.get(f"{when}_commit_res_stdout") or "")) for when in ("old", "new"))
    passed = [test for test, word in after.items() if word == "PASSED" and expected.get(to_name(test)) == "PASSED"]
    fail_to_pass = [test for test in passed if before.get(test) != "PASSED"]
    names = {name for test in after for name in (to_name(test), to_name(test).partition(" - ")[0])}
    if missing := expected.keys() - names:
        raise Refused("incomplete log", f"the run in the row does not list {min(missing)!r}, which is expected")
    if not fail_to_pass:
        raise Refused("empty FAIL_TO_PASS", "every expected test passed before the commit")
    return {"FAIL_TO_PASS": fail_to_pass, "PASS_TO_PASS": [test for test in passed if test not in set(fail_to_pass)]}


def read_results(log: str) -> dict[str, str]:
    """Parse the summary at the end of pytest's log; return test id → result."""
    log = COLOUR.sub("", log)
    summary = SUMMARY.search(log)
    found = RESULT.findall(log[summary.end() :]) if summary else []
    return {text if word == "PASSED" else cut_message(text): word for word, text in found}


def cut_message(text: str) -> str:
    """Remove the failure message from a line of pytest's summary: `a.py::t[x - y] - assert 1` → `a.py::t[x - y]`."""
    cuts = [found.start() for found in re.finditer(" - ", text)]
    return next((text[:cut] for cut in cuts if "[" not in text[:cut] or text[cut - 1] == "]"), text)


def to_name(test: str) -> str:
    """Convert a pytest id to the name that R2E-Gym gives the test: `r2e_tests/test_1.py::T::test_x[a]` → `T.test_x[a]`."""
    return ".".join(test.split("::")[1:])


def render_tests(run: dict[str, Any]) -> str:
    """Build a patch that adds the row's hidden tests. Raises Refused if they are missing or not text."""
    names, texts = run.get("test_file_names"), run.get("test_file_codes")
    if not isinstance(names, list) or not isinstance(texts, list) or not names or len(names) != len(texts):
        raise Refused("no test patch", "execution_result_content holds no test files")
    if not all(isinstance(text, str) for text in [*names, *texts]):
        raise Refused("bad test patch", "a test file in execution_result_content is not text")
    return render_diff([add_file(f"{FOLDER}/{name}", text) for name, text in zip(names, texts, strict=True)])


def render_commit(commit: dict[str, Any]) -> str:
    """Convert the recorded commit, without test files, to the gold patch. Raises Refused."""
    files = commit.get("file_diffs")
    try:
        kept = [_read_file(file) for file in files or [] if not TEST_FILE.fullmatch(file["header"]["file"]["path"])]
    except (KeyError, TypeError, IndexError, AttributeError):
        raise Refused(
            "bad gold patch", "file_diffs of parsed_commit_content has another form than R2E writes"
        ) from None
    if not kept:
        raise Refused("no gold patch", "parsed_commit_content changes no file but tests")
    return render_diff(kept)


def _read_file(file: dict[str, Any]) -> FileDiff:
    path, misc, index = file["header"]["file"]["path"], file["header"].get("misc_line"), file.get("index_line")
    if file.get("is_binary_file"):
        raise Refused("bad gold patch", f"the content of the binary file {path} is missing")
    mode = f" {index['mode']}" if index and index.get("mode") else ""
    header = [f"diff --git a/{path} b/{path}", misc, index and _render_index(index) + mode]
    names = [f"--- {file['minus_file']['path']}", f"+++ {file['plus_file']['path']}"] if file.get("minus_file") else []
    return FileDiff(tuple([line for line in header if line] + names), tuple(map(_read_hunk, file.get("hunks") or [])))


def _render_index(index: dict[str, Any]) -> str:
    return f"index {index['old_commit_hash']}..{index['new_commit_hash']}"


def _read_hunk(hunk: dict[str, Any]) -> DiffHunk:
    old, new = hunk["descriptor"]["old_range"], hunk["descriptor"]["new_range"]
    section = hunk["descriptor"].get("section") or ""
    lines = tuple(_render_line(line) for line in hunk["line_group"]["all_lines"])
    return DiffHunk(_read_range(old), _read_range(new), f" {section}" if section else "", lines)


def _read_range(lines: dict[str, Any]) -> tuple[int, int]:
    return lines["start"], 1 if lines["length"] is None else lines["length"]


def _render_line(line: dict[str, str]) -> str:
    return (
        MARKS[line["type"]] + line["content"]
        if line["type"] in MARKS
        else f"\\ {line['content'].lstrip(chr(92) + ' ')}"
    )


R2E_GYM = PublicSet(
    "r2e-gym",
    frozenset({"repo_name", "docker_image", "commit_hash", "execution_result_content", "expected_output_json"}),
    describe,
    identify,
)
