"""Files that only tests read while they run with the gold patch: no other patch has a say over them.

One run of its own, in which an audit hook notes who opens what. Names tell nothing here: expected data may be anywhere.
"""

import json
from pathlib import Path, PurePosixPath
from secrets import token_hex

from turnsmith.rewards.cases import Case, run_tests
from turnsmith.rewards.hunks import HunkClass, Project, describe_project, select_gold
from turnsmith.rewards.sentinels import draw_path

_WATCHING = Path(__file__).with_name("watching.py").read_text(encoding="utf-8")


async def find_test_data(case: Case) -> list[str]:
    """Find files that tests open and source does not; none where the suite is not pytest's, or prints no notes.

    Raises PatchRefused, SandboxError, GradingError.
    """
    if not case.is_sealed:
        return []
    place, mark = draw_path(PurePosixPath(case.directives[0]).parent), f"opened-{token_hex(16)} "
    text = _WATCHING.replace("<mark>", mark).replace("<place>", place)
    report = await run_tests(case, select_gold(case.task, case.layers), (place, *case.directives), {place: text})
    return sort_out(read_notes(report.log, mark), describe_project(case.task, case.layers))


def read_notes(log: str, mark: str) -> list[tuple[str, str]]:
    """Read the files that were opened, each with the file whose code opened it."""
    lines = [line.partition(mark)[2] for line in log.split("\n") if mark in line]
    return [(path, opener) for line in lines for path, opener in json.loads(line)]


def sort_out(opened: list[tuple[str, str]], project: Project) -> list[str]:
    """Select the files that tests alone opened, without test surface by name and files that the fix changes."""
    by_source = {path for path, opener in opened if project.classify(opener) is HunkClass.SOURCE}
    read = {path for path, _ in opened} - by_source - project.source_files
    return sorted(path for path in read if project.classify(path) is HunkClass.SOURCE)
