"""Which side of a comparison states what is expected: what is written out, or what the test makes by means of its own."""

import ast
import builtins
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from turnsmith.rewards.literals import is_made_of_literals, is_written_out
from turnsmith.rewards.parameters import Test, find_columns


@dataclass(frozen=True)
class Context:
    """Where an expectation stands."""

    test: Test
    own: Collection[str]
    assignments: Mapping[str, ast.Assign]
    """Variable → the one place where it gets its value, if it does not depend on itself."""


def read_context(test: Test, own: Collection[str]) -> Context:
    return Context(test, own, _find_assignments(test))


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
    """The sides of a comparison that state what is expected, none where both come of the code under test.

    What is written out; else what is made of that; else what comes of no call; else of calls of the test's own.
    """
    sides = [first, second]
    traced = [(side, _trace(side, around)) for side in sides]
    return (
        [side for side in sides if is_written_out(side)]
        or [side for side in sides if is_new_object(side, around)]
        or [side for side, source in traced if not _calls(source)]
        or [side for side, source in traced if all(_is_own(_root(call), around) for call in _calls(source))]
    )


def _trace(side: ast.expr, around: Context) -> ast.expr:
    """What a variable, or that of which it is a part, was made of, where it has one value."""
    while isinstance(side, ast.Subscript | ast.Attribute):
        side = side.value
    assignment = around.assignments.get(side.id) if isinstance(side, ast.Name) else None
    return assignment.value if assignment else side


def _calls(side: ast.expr) -> list[ast.Call]:
    return [node for node in ast.walk(side) if isinstance(node, ast.Call)]


def _is_own(name: str, around: Context) -> bool:
    """Is it the test's own, or a variable that holds what is written out?"""
    if name in around.own or name in find_columns(around.test):
        return True
    assignment = around.assignments.get(name)
    return assignment is not None and is_written_out(assignment.value)


def _root(call: ast.expr) -> str:
    """The name at which a call begins: `a` of `a.b(1).c(2)`; that of a type for a literal."""
    while not isinstance(call, ast.Name | ast.Constant | ast.JoinedStr):
        below = [node for node in ast.iter_child_nodes(call) if isinstance(node, ast.expr)]
        if not below:
            return ""
        call = below[0]
    return call.id if isinstance(call, ast.Name) else "str"


def is_new_object(side: ast.expr, around: Context) -> bool:
    """Is it made of literals, by the code under test? Python's own kinds may be particular about their arguments."""
    return is_made_of_literals(side) and _root(side) not in around.own


def find_names(nodes: Iterable[ast.AST]) -> set[str]:
    return {below.id for node in nodes for below in ast.walk(node) if isinstance(below, ast.Name)}
