"""Lessons: bugs in practice repositories of the `base` split, with the position and text of the fix.

Lessons are not validated. The issue is written without running the tests, because lessons only teach the tools.
"""

import ast
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.testing import SuiteReport
from turnsmith.synthesis.bugs import Bug
from turnsmith.synthesis.issues import write_issue
from turnsmith.synthesis.mutators import Mutation
from turnsmith.synthesis.practice.functions import Function
from turnsmith.synthesis.practice.making import PracticeSpec, draw_bugs, draw_repositories
from turnsmith.synthesis.practice.repository import PracticeRepository
from turnsmith.synthesis.repositories import to_tree, write_candidate, write_repository
from turnsmith.types import Task

DIFFICULTIES = (0.0, 0.3)


@dataclass(frozen=True)
class Lesson:
    """Task and its solution."""

    task: Task
    folder: Path
    """Folder to which the task's layers are relative."""
    function: str
    path: str
    def_line: int
    """Line of the function's `def` in the buggy file."""
    first_line: int
    """First line of the function's body after its docstring in the buggy file, counted from 1."""
    last_line: int
    body: tuple[str, ...]
    """Lines of the fixed body."""
    other_paths: tuple[str, ...]
    """Modules without a bug."""


def draw_lessons(folder: Path, num_lessons: int, seed: int) -> Iterator[Lesson]:
    """Draw lessons, and write their layers below `folder`."""
    return itertools.islice(_endless(folder, seed), num_lessons)


def _endless(folder: Path, seed: int) -> Iterator[Lesson]:
    for index in itertools.count():
        difficulty = DIFFICULTIES[index % len(DIFFICULTIES)]
        spec = PracticeSpec("base", 0, difficulty, seed * 1_000_000 + index)
        yield from write_lessons(next(draw_repositories(spec)), spec, folder / str(index))


def write_lessons(practice: PracticeRepository, spec: PracticeSpec, folder: Path) -> Iterator[Lesson]:
    """Yield a lesson for each function of a repository."""
    repository = write_repository(practice.name, to_tree(practice.files), folder)
    functions = {function.name: function for module in practice.modules for function in module.functions}
    paths = [path for path in practice.files if path.startswith(practice.name)]
    rng = random.Random(f"lessons {practice.name}")
    for path, mutation in draw_bugs(practice):
        candidate = write_candidate(repository, Bug(((path, mutation),)))
        has_hint = rng.random() >= spec.difficulty
        task = Task(
            instance_id=candidate.instance_id,
            repo=practice.name,
            base_commit=candidate.base_commit,
            problem_statement=imagine_issue(path, functions[mutation.function], has_hint),
            FAIL_TO_PASS=[],
            PASS_TO_PASS=[],
            patch="",
            layers=[str(layer.relative_to(folder)) for layer in candidate.layers],
        )
        yield to_lesson(task, folder, path, mutation, paths)


def imagine_issue(path: str, function: Function, has_hint: bool) -> str:
    """Write the issue without running the tests; with a hint it quotes the docstring."""
    test = f"tests/test_{Path(path).stem}.py::test_{function.name}"
    message = f"AssertionError: {function.sentence}" if has_hint else "assert 3 == 4"
    return write_issue(SuiteReport({test: TestResult("failed", message)}, 1, 0.0), vagueness=0.0)


def to_lesson(task: Task, folder: Path, path: str, mutation: Mutation, paths: list[str]) -> Lesson:
    """Make a lesson from a mutation: find the lines of the body, and their fixed text."""
    def_line, first_line, last_line = find_body(mutation.apply(), mutation.function)
    _, first, last = find_body(mutation.source, mutation.function)
    return Lesson(
        task=task,
        folder=folder,
        function=mutation.function,
        path=path,
        def_line=def_line,
        first_line=first_line,
        last_line=last_line,
        body=tuple(mutation.source.split("\n")[first - 1 : last]),
        other_paths=tuple(p for p in paths if p != path),
    )


def find_body(source: str, function: str) -> tuple[int, int, int]:
    """Return three lines of a function, counted from 1: `def`, first statement after the docstring, end."""
    defined = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == function]
    docstring, *body = defined[0].body
    assert docstring.end_lineno and body[-1].end_lineno
    return defined[0].lineno, docstring.end_lineno + 1, body[-1].end_lineno
