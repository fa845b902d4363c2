"""Map of a repository's Python code: its definitions, and the names by which a reader gets from one to another."""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal


@dataclass(frozen=True)
class Definition:
    """Definition of a name in a file. Lines are counted from 1."""

    kind: Literal["def", "class", "name"]
    """`name` stands for a variable of a module or class and for an import."""
    name: str
    path: str
    first: int
    """Line that a search for the name finds: the line of `def` or `class`, not of a decorator."""
    last: int
    uses: frozenset[str]
    """Names that the definition mentions. A class mentions its bases and members, not the names in the members."""

    @property
    def num_lines(self) -> int:
        return self.last - self.first + 1


class CodeMap:
    """Definitions of a repository's Python files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.definitions = [each for path in sorted(files) for each in list_definitions(path, files[path])]

    @cached_property
    def users(self) -> Mapping[str, list[Definition]]:
        """Map each name to the definitions that mention it."""
        users = defaultdict[str, list[Definition]](list)
        for definition in self.definitions:
            for name in definition.uses:
                users[name].append(definition)
        return users

    def measure_distances(self, goal: Definition) -> dict[Definition, int]:
        """Count the steps from definitions to `goal`. A step leads from a definition to one whose name it mentions."""
        distances, border = {goal: 0}, [goal]
        while border:
            reached = [user for each in border for user in self.users.get(each.name, ()) if user not in distances]
            distance = distances[border[0]] + 1
            distances |= dict.fromkeys(reached, distance)
            border = list(dict.fromkeys(reached))
        return distances


def list_definitions(path: str, source: str) -> list[Definition]:
    """List the definitions of a file in the order of their lines; none for a file that is not Python."""
    if not path.endswith(".py"):
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    return sorted(find_definitions(path, tree), key=lambda each: (each.first, -each.last))


def find_definitions(path: str, node: ast.AST, *, is_function: bool = False) -> Iterator[Definition]:
    """Yield the definitions inside a node. Variables and imports of functions are left out."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield Definition("def", child.name, path, child.lineno, find_end(child), list_names([child]))
                yield from find_definitions(path, child, is_function=True)
            case ast.ClassDef():
                yield Definition("class", child.name, path, child.lineno, find_end(child), list_class_names(child))
                yield from find_definitions(path, child)
            case ast.Assign() | ast.AnnAssign() | ast.Import() | ast.ImportFrom() if not is_function:
                for name in list_bound(child):
                    yield Definition("name", name, path, child.lineno, find_end(child), list_names([child]) - {name})
            case _:
                yield from find_definitions(path, child, is_function=is_function)


def find_end(node: ast.stmt) -> int:
    """Return the last line of a statement."""
    return node.end_lineno or node.lineno


def list_bound(node: ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom) -> list[str]:
    """List the names that an assignment or an import binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def list_names(nodes: Collection[ast.AST]) -> frozenset[str]:
    """List the names, attributes and imported names below nodes."""
    found = set[str]()
    for node in (each for root in nodes for each in ast.walk(root)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.alias(name=name):
                found.update(name.split("."))
    return frozenset(found)


def list_class_names(node: ast.ClassDef) -> frozenset[str]:
    """List the names of a class's bases and decorators, and of its members."""
    members = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return list_names([*node.bases, *node.decorator_list]) | members


def find_enclosing(definitions: Collection[Definition], line: int) -> Definition | None:
    """Find the innermost definition that covers a line; None if the line is at the top level of its file."""
    covering = [each for each in definitions if each.first <= line <= each.last]
    return min(covering, key=lambda each: each.num_lines, default=None)
