"""Which side of a comparison states what is expected: what is written out, or what the test makes by means of its own."""

import ast
import builtins
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from turnsmith.rewards.literals import (
    Values,
    find_constants,
    is_fixed,
    is_made_of_literals,
    is_written_out,
    read_values,
)
from turnsmith.rewards.parameters import Test, read_columns

_READING = {"eval", "getattr", "importlib", "io", "json", "open", "os", "pickle", "sqlite3", "subprocess", "vars"}
"""What brings in values from elsewhere, which code under test may have left there."""


@dataclass(frozen=True)
class Surroundings:
    """What the file of a test holds."""

    own: Collection[str]
    """Names of what is the file's own, or Python's, and so not under test."""
    values: Sequence[Any]
    """All that is written there."""
    filled: Collection[str]
    """Variables that begin empty."""


@dataclass(frozen=True)
class Context:
    """Where an expectation stands."""

    test: Test
    file: Surroundings
    assignments: Mapping[str, ast.Assign]
    """Variable → the one place where it gets its value, if it does not depend on itself."""
    sources: Mapping[str, list[ast.expr]]
    """Variable → all that gives it a value, or a part of one."""
    leans_on: Mapping[str, set[str]]
    """Variable → the names in what gives it a value."""
    num_reads: Counter[str]

    @property
    def values(self) -> Values:
        return Values(read_values(self.test), self.file.values)


def read_file(module: ast.Module) -> Surroundings:
    return Surroundings(find_own(module), read_values(module), {*_find_empty(module)})


def _find_empty(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not find_constants(value):
                yield name


def read_context(test: Test, file: Surroundings) -> Context:
    sources = _find_sources(test)
    leans_on = {name: _list_free_names(given) for name, given in sources.items()}
    return Context(test, file, _find_assignments(test), sources, leans_on, Counter(_list_reads([test])))


def _find_assignments(test: Test) -> dict[str, ast.Assign]:
    nodes = [*ast.walk(test)]
    num_stores = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    found = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if num_stores[name] == 1 and name not in find_names([value]):
                    found[name] = node
    return found


def _find_sources(test: Test) -> dict[str, list[ast.expr]]:
    found = defaultdict(list)
    for target, source in _bindings(test):
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                found[node.id].append(source)
    return found


def _bindings(test: Test) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every target in a test with what it gets its value from."""
    yield from ((ast.Name(name, ast.Store()), value) for name, value in read_columns(test))
    for node in ast.walk(test):
        match node:
            case ast.For(target=ast.Tuple(elts=targets), iter=ast.Call(func=ast.Name(id="zip"), args=sources)):
                yield from zip(targets, sources, strict=False)
            case ast.Assign(targets=targets, value=source):
                yield from ((target, source) for target in targets)
            case ast.AugAssign() | ast.NamedExpr() | ast.AnnAssign(value=ast.expr()):
                yield node.target, cast(ast.expr, node.value)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                yield node.target, node.iter
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=source):
                yield target, source


def find_handed(test: Test) -> set[str]:
    """Functions in a test that it does not only call, or run, itself: others have them, who may hold back their errors."""
    nodes = [*ast.walk(test)]
    waits = {node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)}
    run = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _root(node) not in waits}
    run |= {id(function) for node in nodes for function in _list_run(node)}
    run -= {id(below) for node in nodes if isinstance(node, ast.Lambda) for below in ast.walk(node)}
    read = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    decorated = {node.name for node in nodes if isinstance(node, Test) and node.decorator_list}
    return {node.id for node in read if id(node) not in run} | (decorated - {node.id for node in read})


def _list_run(node: ast.AST) -> list[ast.expr]:
    """What is run to its end: `main` of `anyio.run(main)`, of `asyncio.run(main())`, of `await wait_for(main(), 5)`."""
    match node:
        case ast.Await(value=ast.Call(func=function)):
            return [function]
        case ast.Call(
            func=ast.Attribute(attr="run" | "run_until_complete" | "wait_for"), args=[ast.Call(func=function), *_]
        ):
            return [function]
        case ast.Call(func=ast.Attribute(attr="run"), args=[function, *_]):
            return [function]
    return []


def find_own(module: ast.Module) -> frozenset[str]:
    """Names of a file that stand for nothing under test: Python's, the library's, and what the file makes of these alone."""
    imported = {name: package for node in ast.walk(module) for name, package in _read_imports(node)}
    foreign = {name for name, package in imported.items() if package not in sys.stdlib_module_names}
    own = {*dir(builtins), *imported} - foreign
    leans_on = defaultdict[str, set[str]](set)
    for name, others in _read_definitions(module):
        leans_on[name] |= others - {name}
    while new := {name for name, others in leans_on.items() if others <= own} - own - foreign:
        own |= new
    return frozenset(own)


def _read_definitions(module: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Each function, and each constant of the module, with the names that it leans on; of a fixture arguments are such, too."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                given = {argument.arg for argument in node.args.args} if node.decorator_list else set()
                yield node.name, _list_free_names([node.args, *node.body]) | given
            case ast.Assign(targets=[ast.Name(id=name)]) if node in module.body:
                yield name, _list_free_names([node.value])


def _list_free_names(parts: Iterable[ast.AST]) -> set[str]:
    """What is read in parts of a definition that they do not define themselves."""
    nodes = [node for part in parts for node in ast.walk(part)]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return {*_list_reads(parts)} - stored - {node.arg for node in nodes if isinstance(node, ast.arg)}


def _list_reads(parts: Iterable[ast.AST]) -> Iterator[str]:
    """Names that are read, each as often as it is, but for annotations of arguments."""
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id


def _read_imports(node: ast.AST) -> list[tuple[str, str]]:
    """Each name that an import gives, with the package that it comes from; none for what is close by."""
    match node:
        case ast.Import(names=aliases):
            return [(one.asname or _first(one.name), _first(one.name)) for one in aliases]
        case ast.ImportFrom(names=aliases, module=source, level=level):
            return [(one.asname or one.name, "" if level else _first(str(source))) for one in aliases]
    return []


def _first(module: str) -> str:
    return module.partition(".")[0]


def find_stated(first: ast.expr, second: ast.expr, around: Context) -> list[ast.expr]:
    """The sides of a comparison that state what is expected, none where both are calls of the code under test.

    What is written out; else what is made of that; else what only the test has part in; else what may be either, as the value of
    a fixture, or where a loop gives both sides.
    """
    sides = [first, second]
    return (
        [side for side in sides if is_written_out(side)]
        or [side for side in sides if is_new_object(_trace_expected(side, around), around)]
        or [side for side in sides if is_known(side, around)]
        or [side for side in sides if not _calls(_trace(side, around))]
    )


def is_known(side: ast.expr, around: Context) -> bool:
    """Has nothing part in it but the test, and what is Python's?"""
    given = {argument.arg for argument in around.test.args.args} & {*dir(builtins)}
    return _find_all_names(side, around) <= {*around.file.own, *around.sources} - given


def is_certain(side: ast.expr, around: Context) -> bool:
    """Is it known, and neither changed in place nor read from somewhere?"""
    names = _find_all_names(side, around)
    shared = [source for name in names if around.num_reads[name] > 1 for source in around.sources.get(name, [])]
    is_open = bool(names & _READING) or bool(names & {*around.file.filled})
    return is_known(side, around) and not is_open and all(map(is_fixed, shared))


def _trace_expected(side: ast.expr, around: Context) -> ast.expr:
    """What a variable holds that is read here only."""
    return _trace(side, around) if isinstance(side, ast.Name) and around.num_reads[side.id] == 1 else side


def _trace(side: ast.expr, around: Context) -> ast.expr:
    """What a variable, or that of which it is a part, was made of, where it has one value."""
    while isinstance(side, ast.Subscript | ast.Attribute):
        side = side.value
    assignment = around.assignments.get(side.id) if isinstance(side, ast.Name) else None
    return assignment.value if assignment else side


def _find_all_names(side: ast.expr, around: Context) -> set[str]:
    """The names in a side, and those that its variables lean on."""
    found, new = set[str](), _list_free_names([side])
    while new:
        found |= new
        new = {below for name in new for below in around.leans_on.get(name, ())} - found
    return found


def _calls(side: ast.expr) -> list[ast.Call]:
    return [node for node in ast.walk(side) if isinstance(node, ast.Call)]


def is_new_object(side: ast.expr, around: Context) -> bool:
    """Is it made of literals, by the code under test? Python's own kinds may be particular about their arguments."""
    return is_made_of_literals(side) and not any(_root(call) in around.file.own for call in _calls(side))


def _root(call: ast.Call) -> str:
    """The name at which a call begins: `a` of `a.b(1)`."""
    function: ast.expr = call
    while isinstance(function, ast.Call | ast.Attribute):
        function = function.func if isinstance(function, ast.Call) else function.value
    return getattr(function, "id", "")


def find_names(nodes: Iterable[ast.AST]) -> set[str]:
    return {below.id for node in nodes for below in ast.walk(node) if isinstance(below, ast.Name)}
