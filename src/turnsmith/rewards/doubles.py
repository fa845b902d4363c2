"""Tests written anew under other names, and twins of them in which one expectation is bent."""

import ast
import copy
import inspect
import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from turnsmith.rewards.chance import CHANCE, sample
from turnsmith.rewards.expectations import find_bends
from turnsmith.rewards.handing import hand_on
from turnsmith.rewards.literals import Bent
from turnsmith.rewards.parameters import Test, choose_rows, find_table, write_rows
from turnsmith.rewards.placeholders import HELPER, PLACEHOLDER, write_name
from turnsmith.rewards.stated import Surroundings, read_file

MAX_TWINS = 5
"""Twins of one test, less where they come out alike: as many as a verdict can show, so that each run has another one."""
MAX_NODES = 5_000
"""Of the syntax tree of a test; longer ones have no doubles, which would take seconds to write."""
MAX_BENDS = 40
"""Expectations of one test that are looked at, chosen at random."""
MAX_DEPTH = 100
"""Of the syntax tree of a file."""
MAX_ROWS = 2
"""Parameter sets of one test."""

_HELPER = inspect.getsource(hand_on).replace(hand_on.__name__, HELPER)


@dataclass(frozen=True)
class Double:
    """A test under another name, or a twin of it."""

    place: str
    """Its id after the file's, with the placeholder: `TestX::test_double00003_`."""
    original: str
    """Place of the test that it was made of: `TestX::test_y`."""
    parameters: tuple[str, ...]
    """Ids of its parameters, such as `[1-2]`; one that is empty where it has none."""
    is_twin: bool

    @property
    def name(self) -> str:
        return self.place.rpartition("::")[2]

    @property
    def original_name(self) -> str:
        return self.original.rpartition("::")[2]


def double_tests(source: str, wanted: Mapping[str, Collection[str]]) -> tuple[str, list[Double]]:
    """The source with doubles instead of the wanted tests: from place to ids of parameters, such as `[1-2]` or nothing.

    No doubles where it cannot be read, or is nested so deep that it could not be written again.
    """
    try:
        return _double_tests(ast.parse(source), wanted)
    except Exception:  # strange sources fail in more ways than a list can name; what has no mirror is counted as such
        return source, []


def _double_tests(module: ast.Module, wanted: Mapping[str, Collection[str]]) -> tuple[str, list[Double]]:
    if _depth(module) > MAX_DEPTH:
        raise RecursionError("to be written again, as a mirror is for every run, it takes too much of the stack")
    numbers, doubles, file = itertools.count(), [], read_file(module)
    for prefix, body in list(_bodies(module)):
        here = {place.removeprefix(prefix): wanted[place] for place in wanted if _parent(place) == prefix}
        written = [
            pair
            for test in _take(here, body)
            for pair in _write_doubles(test, _keep_rows(test, {*here[test.name]}, module), prefix, numbers, file)
        ]
        written += [
            _write_alias(name, prefix, numbers)
            for name in here.keys() - {d.original_name for _, d in written}
            if prefix
        ]
        body += [test for test, _ in written]
        doubles += [double for _, double in written]
    return f"{_unparse(module)}\n\n{_HELPER}", doubles


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level := [child for node in level for child in ast.iter_child_nodes(node)]:
        depth += 1
    return depth


def keep_doubles(text: str, kept: Collection[str]) -> str:
    """The text with these doubles only, given by their names, without other tests and tables that only they had."""
    module = ast.parse(text)
    for _, body in list(_bodies(module)):
        body[:] = [node for node in body if not isinstance(node, Test) or _is_kept(node, kept)] or [ast.Pass()]
    used = {node.id for node in ast.walk(module) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    module.body[:] = [node for node in module.body if not (names := _table_names(node)) or names & used]
    return _unparse(module)


def _is_kept(function: Test, kept: Collection[str]) -> bool:
    """Is it one of these, or no test? A fixture is none, whatever its name."""
    name = function.name
    is_test = name.startswith("test") and not any(map(_is_fixture, function.decorator_list))
    return name in kept or name == HELPER or not (is_test or PLACEHOLDER.search(name))


def _is_fixture(mark: ast.expr) -> bool:
    """`@fixture`, `@pytest.fixture`, `@pytest_asyncio.fixture(scope="module")`."""
    mark = mark.func if isinstance(mark, ast.Call) else mark
    return "fixture" in (getattr(mark, "id", ""), getattr(mark, "attr", ""))


def _table_names(node: ast.stmt) -> set[str]:
    """The name of a literal, unless pytest knows it; nothing where the statement is something else."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Tuple() | ast.Dict()):
            return set() if name.startswith(("pytest", "collect")) else {name}
    return set()


def _unparse(tree: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _parent(place: str) -> str:
    """What comes before the name: `TestX::`."""
    return place[: len(place) - len(place.rpartition("::")[2])]


def _bodies(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, list[ast.stmt]]]:
    """The bodies in which tests are defined, with what comes before their names in an id."""
    yield prefix, tree.body
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _bodies(node, f"{prefix}{node.name}::")


def _take(names: Collection[str], body: list[ast.stmt]) -> list[Test]:
    """Remove the tests of these names from a body, but for those that are too long."""
    tests = [node for node in body if isinstance(node, Test) and node.name in names and _is_short(node)]
    body[:] = [node for node in body if node not in tests]
    return tests


def _is_short(test: Test) -> bool:
    return sum(1 for _ in ast.walk(test)) <= MAX_NODES


def _write_alias(name: str, prefix: str, numbers: Iterator[int]) -> tuple[ast.stmt, Double]:
    """A method that calls an inherited test; its expectations are out of reach."""
    alias = _draw_name(name, numbers)
    (method,) = ast.parse(f"def {alias}(self):\n    return self.{name}()").body
    return method, Double(prefix + alias, prefix + name, ("",), is_twin=False)


def _write_doubles(
    test: Test, parameters: Collection[str], prefix: str, numbers: Iterator[int], file: Surroundings
) -> Iterator[tuple[ast.stmt, Double]]:
    """The test itself and its twins."""
    for number, new in enumerate(itertools.islice(_write_versions(test, file), 1 + MAX_TWINS)):
        new.name = _draw_name(test.name, numbers)
        yield new, Double(prefix + new.name, prefix + test.name, tuple(parameters), is_twin=number > 0)


def _keep_rows(test: Test, wanted: Collection[str], module: ast.Module) -> list[str]:
    """Leave a test a few of its rows, where they can be read, and return the ids of those that are to be run."""
    table = find_table(test, module)
    rows = sample(choose_rows(table, wanted), MAX_ROWS) if table else []
    return write_rows(table, copy.deepcopy(rows)) if table and rows else sample(sorted(wanted), MAX_ROWS)


def _write_versions(test: Test, file: Surroundings) -> Iterator[Test]:
    """The test itself, then its twins, no two alike."""
    chosen = sorted(sample([*range(len(find_bends(test, file)))], MAX_BENDS))
    seen = set[str]()
    for bent in ({}, *_draw_bends(chosen)):
        new = copy.deepcopy(test)
        bends = find_bends(new, file)
        for number in chosen:
            bends[number](bent.get(number))
        if (text := _unparse(new)) not in seen:
            seen.add(text)
            yield new


def _draw_bends(numbers: list[int]) -> list[dict[int, Bent]]:
    """Which of the expectations each twin bends, and how; one by one, and then some again, since they are bent otherwise.

    More than are asked for, since some come out alike.
    """
    drawn = sample(numbers, MAX_TWINS) + (CHANCE.choices(numbers, k=2 * MAX_TWINS) if numbers else [])
    return [{number: how} for number, how in zip(drawn, itertools.cycle(get_args(Bent)), strict=False)]


def _draw_name(name: str, numbers: Iterator[int]) -> str:
    return f"{_first_word(name)}_{write_name(next(numbers))}"


def _first_word(name: str) -> str:
    """What makes pytest see a test: `test` of `test_it` and `testIt`, or what a setting asks for."""
    return "test" if name.startswith("test") else name.partition("_")[0]
