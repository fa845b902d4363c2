"""Which side of a comparison states what is expected: what is written out, or what the test makes by means of its own."""

import ast
import builtins
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from turnsmith.rewards.literals import Values, is_made_of_literals, is_written_out, read_values
from turnsmith.rewards.parameters import Test, find_columns


@dataclass(frozen=True)
class Surroundings:
    """What the file of a test holds."""

    own: Collection[str]
    """Names of what is the file's own, or Python's, and so not under test."""
    values: Sequence[Any]
    """All that is written there."""


@dataclass(frozen=True)
class Context:
    """Where an expectation stands."""

    test: Test
    file: Surroundings
    assignments: Mapping[str, ast.Assign]
    """Variable → the one place where it gets its value, if it does not depend on itself."""
    sources: Mapping[str, list[ast.expr]]
    """Variable → all that gives it a value, or a part of one."""

    @property
    def values(self) -> Values:
        return Values(read_values(self.test), self.file.values)


def read_file(module: ast.Module) -> Surroundings:
    return Surroundings(find_own(module), read_values(module))


def read_context(test: Test, file: Surroundings) -> Context:
    return Context(test, file, _find_assignments(test), _find_sources(test))


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
    """Names in a test that are not only called: functions that it hands to others."""
    nodes = [*ast.walk(test)]
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    read = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return {node.id for node in read if id(node) not in called}


def find_own(module: ast.Module) -> frozenset[str]:
    """Names of a test file that do not stand for code under test: Python's, what it defines, what it imports of the library."""
    nodes = [*ast.walk(module)]
    imported = {name: package for node in nodes for name, package in _read_imports(node)}
    foreign = {name for name, package in imported.items() if package not in sys.stdlib_module_names}
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return frozenset({*dir(builtins), *defined, *imported} - foreign)


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

    What is written out; else what is made of that; else what no call has part in; else calls of the test's own only; else what
    may be either, as where a loop gives both sides: a bent result of the code under test shows less, but nothing wrong.
    """
    sides = [first, second]
    calls = {id(side): _calls([side, *_find_all_sources(side, around)]) for side in sides}
    return (
        [side for side in sides if is_written_out(side)]
        or [side for side in sides if is_new_object(side, around)]
        or [side for side in sides if not calls[id(side)]]
        or [side for side in sides if all(_is_own(_root(call), around) for call in calls[id(side)])]
        or [side for side in sides if not _calls([_trace(side, around)])]
    )


def _trace(side: ast.expr, around: Context) -> ast.expr:
    """What a variable, or that of which it is a part, was made of, where it has one value."""
    while isinstance(side, ast.Subscript | ast.Attribute):
        side = side.value
    assignment = around.assignments.get(side.id) if isinstance(side, ast.Name) else None
    return assignment.value if assignment else side


def _find_all_sources(side: ast.expr, around: Context) -> list[ast.expr]:
    """What the variables in a side come from, and what those in that come from."""
    found: list[ast.expr] = []
    seen, names = set[str](), find_names([side])
    while names:
        seen |= names
        new = [source for name in names for source in around.sources.get(name, [])]
        found += new
        names = find_names(new) - seen
    return found


def _calls(sides: Iterable[ast.expr]) -> list[ast.Call]:
    return [node for side in sides for node in ast.walk(side) if isinstance(node, ast.Call)]


def _is_own(name: str, around: Context) -> bool:
    """Is it the test's own, or a variable that holds what is written out?"""
    if name in around.file.own or name in find_columns(around.test):
        return True
    assignment = around.assignments.get(name)
    return assignment is not None and is_written_out(assignment.value)


def _root(call: ast.expr) -> str:
    """The name at which a call begins: `a` of `a.b(1).c(2)`; one of Python's for a literal."""
    while not isinstance(call, ast.Name | ast.Constant | ast.JoinedStr):
        below = [node for node in ast.iter_child_nodes(call) if isinstance(node, ast.expr)]
        if not below:
            return ""
        call = below[0]
    return call.id if isinstance(call, ast.Name) else "str"


def is_new_object(side: ast.expr, around: Context) -> bool:
    """Is it made of literals, by the code under test? Python's own kinds may be particular about their arguments."""
    return is_made_of_literals(side) and _root(side) not in around.file.own


def find_names(nodes: Iterable[ast.AST]) -> set[str]:
    return {below.id for node in nodes for below in ast.walk(node) if isinstance(below, ast.Name)}
