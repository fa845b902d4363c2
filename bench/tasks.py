"""Benchmark of `tasks import`: a hundred thousand generated rows in the layout of SWE-rebench V1, as Parquet.

    python bench/tasks.py [--rows 100000] [--check]

A row has about 12 kB: patches, an issue, pinned requirements, and eighty expected tests, one of them cut at a space. Three in a
thousand have no image, no FAIL_TO_PASS or half a patch, and must be refused for that reason. The time is that of the whole
command. `--check` exits with 1 if the import is slower than 2,000 rows/s, takes more than 500 MB, or counts refused rows wrongly.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

MIN_ROWS_PER_S, MAX_MB = 2_000.0, 500.0
BATCH = 1_000
NUM_TESTS = 80
ODD_EVERY = 1_000
WORDS = "value result index total name error cache path total_size request parser token state option default".split()
RUN = (
    "import resource, sys; from turnsmith.cli import make_app; code = make_app()(sys.argv[1:], standalone_mode=False); "
    "used = resource.getrusage(resource.RUSAGE_SELF); "
    "print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)"
)
"""Python program that runs a command, then prints its processor seconds and peak memory in kB."""


def make_row(number: int) -> dict[str, Any]:
    """Return a row as published, drawn from its number."""
    draw = random.Random(number)
    repo = f"owner{number % 3_000}/project{number % 3_000}"
    name = repo.replace("/", "__") + f"-{number}"
    image = f"swerebench/sweb.eval.x86_64.{repo.replace('/', '_1776_')}-{number}"
    tests = [
        f"tests/unit/test_module_{number % 7}.py::TestCase{i % 9}::test_{draw.choice(WORDS)}_{i}"
        for i in range(NUM_TESTS)
    ]
    tests[1] += "[required-Missing"
    return {
        "instance_id": name,
        "base_commit": f"{number:040x}",
        "created_at": "2023-04-14 16:36:54",
        "environment_setup_commit": f"{number:040x}",
        "hints_text": "",
        "patch": make_patch(draw, f"src/project/module_{number % 7}.py", 4),
        "problem_statement": " ".join(draw.choices(WORDS, k=150)),
        "repo": repo,
        "test_patch": make_patch(draw, f"tests/unit/test_module_{number % 7}.py", 4),
        "meta": {
            "commit_name": "merge_commit",
            "failed_lite_validators": ["has_hyperlinks"],
            "has_test_patch": True,
            "is_lite": False,
            "llm_score": {"difficulty_score": number % 4, "issue_text_score": 0, "test_score": 1},
            "num_modified_files": 1 + number % 9,
        },
        "version": "2.3",
        "install_config": {
            "install": "pip install -e .[dev]",
            "log_parser": "parse_log_pytest",
            "packages": "requirements.txt",
            "pip_packages": ["pytest"],
            "pre_install": None,
            "python": "3.9",
            "reqs_path": ["requirements.txt"],
            "test_cmd": "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider",
        },
        "requirements": "\n".join(f"{word}=={draw.randrange(9)}.{draw.randrange(30)}" for word in WORDS * 3),
        "environment": "name: project\ndependencies:\n"
        + "\n".join(f"  - {word}=1.{draw.randrange(9)}" for word in WORDS * 3),
        "FAIL_TO_PASS": tests[:1],
        "FAIL_TO_FAIL": [],
        "PASS_TO_PASS": tests[1:],
        "PASS_TO_FAIL": [],
        "license_name": "MIT License",
        "docker_image": image,
        "image_name": image,
    } | ODD.get(number % ODD_EVERY, lambda: {})()


def make_patch(draw: random.Random, file: str, num_hunks: int) -> str:
    """Return a patch with `num_hunks` hunks of nine lines."""
    lines = [f"diff --git a/{file} b/{file}", "index 1111111..2222222 100644", f"--- a/{file}", f"+++ b/{file}"]
    for hunk in range(num_hunks):
        start = 1 + 20 * hunk
        text = [f"    {draw.choice(WORDS)} = {draw.choice(WORDS)}({draw.randrange(10**6)})" for _ in range(8)]
        marked = [f"{mark}{line}" for mark, line in zip("   -+   ", text, strict=True)]
        lines += [f"@@ -{start},7 +{start},7 @@ def {draw.choice(WORDS)}():", *marked]
    return "\n".join(lines) + "\n"


ODD: dict[int, Callable[[], dict[str, Any]]] = {
    17: lambda: {"image_name": None, "docker_image": ""},
    170: lambda: {"FAIL_TO_PASS": []},
    700: lambda: {"patch": make_patch(random.Random(7), "src/a.py", 2)[:-30]},
}
"""Faults put into rows, by the remainder of the row number."""
REASONS = {17: "no image", 170: "empty FAIL_TO_PASS", 700: "bad gold patch"}


def write_parquet(file: Path, num_rows: int) -> None:
    """Write the rows, one row group per thousand."""
    writer = None
    for start in range(0, num_rows, BATCH):
        table = pyarrow.Table.from_pylist(list(map(make_row, range(start, min(start + BATCH, num_rows)))))
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table.cast(writer.schema))
    if writer:
        writer.close()


def count_planted(num_rows: int) -> dict[str, int]:
    """Count the rows that must be refused, by reason."""
    return dict(Counter(REASONS[number % ODD_EVERY] for number in range(num_rows) if number % ODD_EVERY in REASONS))


def measure_import(file: Path, out: Path) -> tuple[float, float, float, dict[str, Any]]:
    """Run the import. Return its seconds, processor seconds, MB, and JSON output."""
    started = time.perf_counter()
    arguments = ["tasks", "import", "swe-rebench", "--from", str(file), "--out", str(out), "--json"]
    result = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - started
    *_, core_seconds, kilobytes = result.stderr.split()
    return seconds, float(core_seconds), int(kilobytes) / 1024, json.loads(result.stdout)


def find_faults(rate: float, megabytes: float, counts: dict[str, Any], num_rows: int) -> Iterator[str]:
    """Yield the figures that miss their bound."""
    if rate < MIN_ROWS_PER_S:
        yield f"{rate:.0f} rows/s are fewer than {MIN_ROWS_PER_S:.0f}"
    if megabytes > MAX_MB:
        yield f"{megabytes:.0f} MB are more than {MAX_MB:.0f}"
    planted = count_planted(num_rows)
    if counts["refused"] != planted or counts["imported"] != num_rows - sum(planted.values()):
        yield f"imported {counts['imported']} and refused {counts['refused']}; {planted} of {num_rows} are faulty"


def main() -> None:
    """Generate rows, import them, and check the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        write_parquet(file, given.rows)
        seconds, core_seconds, megabytes, counts = measure_import(file, Path(folder) / "out")
    spent = f"{given.rows} rows in {seconds:.1f} s ({core_seconds:.1f} s processor time)"
    print(f"{spent}: {given.rows / seconds:.0f} rows/s, at most {megabytes:.0f} MB")
    faults = list(find_faults(given.rows / seconds, megabytes, counts, given.rows))
    for fault in faults:
        print(f"missed: {fault}")
    sys.exit(bool(given.check and faults))


if __name__ == "__main__":
    main()
