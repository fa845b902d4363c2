"""Benchmark of curation: filter speed on one core, and similarity of planted duplicates and unrelated tasks.

    python bench/curation.py [--rows 20000] [--seeds 10] [--check]

The filters of the paper and the leaderboard run over rows in the layout of SWE-rebench V1, 17 kB each as in the public set. The
bench reports reading and filtering separately, in processor time.

The thresholds of `curation/contamination.py` were chosen by the similarities printed here. The tests use other seeds.
`--check` exits with 1 if fewer than 20,000 rows a second are filtered. It also does so if a threshold does not separate
duplicates from 99 % of the others.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.data_sets.planted_duplicates import disguise, make_tasks
from support.data_sets.set_rows import PATCH, make_rebench_row
from turnsmith.curation.contamination import THRESHOLDS
from turnsmith.curation.filters import choose_filters
from turnsmith.curation.funnel import Funnel
from turnsmith.curation.rows import read_rows
from turnsmith.curation.similarity import measure_likeness, shingle_issue, shingle_patch

MIN_ROWS_PER_S = 20_000
NUM_TASKS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure misses its requirement")
    arguments = parser.parse_args()
    is_met = all([measure_filters(arguments.rows), measure_duplicates(range(arguments.seeds))])
    if arguments.check and not is_met:
        sys.exit(1)


def measure_filters(num_rows: int) -> bool:
    """Print rows per second. Return True if the requirement is met."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tasks.jsonl")
        with file.open("w") as lines:
            lines.writelines(make_line(number) for number in range(num_rows))
        started = time.process_time()
        rows = list(read_rows(file))
        read_s = time.process_time() - started
        started = time.process_time()
        funnel = Funnel(choose_filters(["paper", "leaderboard"]))
        for _ in funnel.sift(rows):
            pass
        judged_s = time.process_time() - started
    print(
        f"{num_rows:,} rows: {num_rows / judged_s:,.0f} rows/s filtered, {num_rows / read_s:,.0f} rows/s read,", end=" "
    )
    print(f"{num_rows / (read_s + judged_s):,.0f} rows/s in all; {funnel.num_left:,} rows pass")
    return num_rows / judged_s >= MIN_ROWS_PER_S


def make_line(number: int) -> str:
    """Return a row of realistic size: long lists of tests, and the text of an environment."""
    row = make_rebench_row(f"owner__repo-{number}", scores=(number % 4, 0, 0), num_files=number % 9, patch=PATCH * 8)
    tests = [f"tests/test_area_{index}.py::TestArea::test_of_many_shapes[{index}]" for index in range(150)]
    return json.dumps(row | {"PASS_TO_PASS": tests, "environment": "name: testbed\n" * 300}) + "\n"


def measure_duplicates(seeds: Iterable[int]) -> bool:
    """Print the similarities of duplicates and of others. Return True if each threshold separates them."""
    alike: dict[str, list[float]] = {way: [] for way in THRESHOLDS}
    others: dict[str, list[float]] = {way: [] for way in THRESHOLDS}
    for seed in seeds:
        tasks = make_tasks(seed, NUM_TASKS, "task")
        twins = [disguise(task, seed, f"twin-{number}") for number, task in enumerate(tasks)]
        for way, column, cut in (("patch", "patch", shingle_patch), ("issue", "problem_statement", shingle_issue)):
            cuts = [(cut(task[column]), cut(twin[column])) for task, twin in zip(tasks, twins, strict=True)]
            alike[way] += [measure_likeness(mine, twin) for mine, twin in cuts]
            others[way] += [measure_likeness(mine, other) for (mine, _), (_, other) in permutations(cuts, 2)]
    for way, threshold in THRESHOLDS.items():
        alarms = sum(likeness >= threshold for likeness in others[way]) / len(others[way])
        found = sum(likeness >= threshold for likeness in alike[way]) / len(alike[way])
        print(
            f"{way}: threshold {threshold}, duplicates from {min(alike[way]):.3f}, others up to {max(others[way]):.3f};",
            end=" ",
        )
        print(f"{found:.2%} of {len(alike[way]):,} found, {alarms:.3%} of {len(others[way]):,} pairs are false alarms")
    return all(
        min(alike[way]) >= threshold and sorted(others[way])[int(0.99 * len(others[way]))] < threshold
        for way, threshold in THRESHOLDS.items()
    )


if __name__ == "__main__":
    main()
