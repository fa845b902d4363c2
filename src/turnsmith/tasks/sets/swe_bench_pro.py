"""SWE-bench Pro V1. In its rows, some texts are JSON strings, and lists are Python literals.

The test command needs two scripts, `run_script.sh` and `parser.py`. They are not in the rows, but in the data set's git
repository, in `run_scripts/<instance_id>/`. A row without its scripts is refused.
"""

import json
from pathlib import Path
from shlex import quote
from typing import Any

from turnsmith.runs.new_folders import to_folder_name
from turnsmith.tasks.sets.base import Columns, PublicSet, Refused, Row
from turnsmith.tasks.sets.cells import check_image, read_expected, read_list, read_patch, read_text

SCRIPTS = {"run_script": "run_script.sh", "parser": "parser.py"}
"""Column that the import adds to a row → name of the script file that the column holds."""
WORK = "/workspace"
MAX_TAG = 128
"""Maximum number of characters of an image tag; longer tags are cut, as in the data set's images."""
PRO_EXCEPTION = "element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"
"""Task whose image name keeps `-vnan` and `element-web`, which other tasks' names lack."""
PRINT_RESULTS = """import json, sys
tests = json.load(open(sys.argv[1]))["tests"]
for test in tests:
    print(test["status"], test["name"])
sys.exit(any(test["status"] in ("FAILED", "ERROR") for test in tests))"""
"""Python script that prints the test results that SWE-bench Pro's `parser.py` found, one line per test."""


def describe(row: Row) -> Columns:
    """Map a row to task columns. The test command runs the row's two scripts. Raises Refused."""
    name, repo = read_text(row, "instance_id"), read_text(row, "repo")
    tag = row.get("dockerhub_tag")
    image = check_image(f"jefzda/sweap-images:{tag}") if tag else name_of_swe_bench_pro(name, repo)
    lists = ("fail_to_pass", "pass_to_pass") if "fail_to_pass" in row else ("FAIL_TO_PASS", "PASS_TO_PASS")
    return read_expected(row, *lists) | {
        "instance_id": name,
        "repo": repo,
        "base_commit": read_text(row, "base_commit"),
        "problem_statement": describe_problem(row),
        "patch": read_patch(row, "patch", name="gold patch"),
        "test_patch": read_patch(row, "test_patch", name="test patch"),
        "image": image,
        "workdir": "/app",
        "setup": [f"git checkout -f {quote(read_text(row, 'base_commit'))}"],
        "test_command": make_command(row),
        "test_files": [",".join(read_list(row, "selected_test_files_to_run"))],
        "log_parser": "lines",
        "status_rules": "swe-bench",
    }


def name_of_swe_bench_pro(instance_id: str, repo: str) -> str:
    """Return a task's image name: id `instance_<tail>` in `Owner/Name` → `jefzda/sweap-images:owner.name-<tail>`."""
    tail, place = instance_id.removeprefix("instance_"), repo.lower().replace("/", ".", 1)
    if tail != PRO_EXCEPTION:
        tail, place = tail.removesuffix("-vnan"), place.replace("element-hq.element-web", "element-hq.element")
    return check_image(f"jefzda/sweap-images:{f'{place}-{tail}'[:MAX_TAG]}")


def describe_problem(row: Row) -> str:
    """Join the issue with the row's requirements and interface. Raises Refused."""
    issue = unquote(read_text(row, "problem_statement", name="issue text"))
    more = {"Requirements": row.get("requirements"), "New interfaces introduced": row.get("interface")}
    return issue + "".join(
        f"\n\n{name}:\n{unquote(text)}" for name, text in more.items() if isinstance(text, str) and text
    )


def unquote(text: str) -> str:
    """Decode a text if it is a JSON string; return other texts unchanged."""
    try:
        decoded: Any = json.loads(text) if text.startswith('"') else text
    except ValueError:
        return text
    return decoded if isinstance(decoded, str) else text


def make_command(row: Row) -> str:
    """Build a command that runs the row's test script on the hidden test files, then `parser.py` on the log. Raises Refused."""
    if not all(row.get(column) for column in SCRIPTS):
        files = " and ".join(f"run_scripts/{row['instance_id']}/{file}" for file in SCRIPTS.values())
        raise Refused("no run script", f"put {files} of the set's repository beside the rows")
    write = [f"printf %s {quote(read_text(row, column))} > {WORK}/{file}" for column, file in SCRIPTS.items()]
    print_results = f"python3 -c {quote(PRINT_RESULTS)} {WORK}/output.json"
    run = (
        f'bash {WORK}/run_script.sh "$1" > {WORK}/stdout.log 2> {WORK}/stderr.log; '
        f"python3 {WORK}/parser.py {WORK}/stdout.log {WORK}/stderr.log {WORK}/output.json && {print_results}"
    )
    return f"mkdir -p {WORK} && {' && '.join(write)} && bash -c {quote(run)} run"


def add_scripts(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add a row's test scripts, which are files in the folder of the rows, as columns."""
    place = folder / "run_scripts" / to_folder_name(Path(str(row.get("instance_id"))).name)
    found = {column: place / file for column, file in SCRIPTS.items() if column not in row and (place / file).is_file()}
    return row | {column: file.read_text(encoding="utf-8") for column, file in found.items()}


SWE_BENCH_PRO = PublicSet(
    "swe-bench-pro",
    frozenset({"instance_id", "problem_statement", "requirements", "interface"}),
    describe,
    complete=add_scripts,
)
