"""Literals in the code of a test, and edits that replace them by other values."""

import ast
import math
import string
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from turnsmith.audit.sources import Source
from turnsmith.types import Edit

_PARTS = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp)
_MARKS = (ast.expr_context, ast.unaryop, ast.operator)
_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
_FAR = 10**6
ANOTHER = (
    "lambda v: v + 'x' if type(v) is str else v + b'x' if type(v) is bytes else not v if type(v) is bool"
    " else v + abs(v) + 1 if type(v) in (int, float) else [*v, None] if type(v) is list"
    " else (*v, None) if type(v) is tuple else {**v, object(): None} if type(v) is dict"
    " else {*v, object()} if type(v) is set else (v, None)"
)
"""Source of a function that mutants apply to an expected value: it returns an unequal value, of the same type if possible."""


def is_literal(node: ast.expr) -> bool:
    """Return True if a node is a literal that contains a value to change."""
    is_plain = all(isinstance(below, (*_PARTS, *_MARKS)) for below in ast.walk(node))
    return is_plain and (_is_empty(node) or bool(_find_values(node)))


def find_outermost(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the literals in pieces of code in order: `[1, 2]`, but not the `1` in it; no docstrings, no texts of f-strings."""
    for node in nodes:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.expr) and is_literal(node):
            yield node
        elif not is_text and not isinstance(node, ast.JoinedStr):
            yield from find_outermost(ast.iter_child_nodes(node))


def _is_empty(node: ast.expr) -> bool:
    return ast.unparse(node) in ("[]", "()", "{}")


def _find_values(literal: ast.expr) -> list[ast.Constant]:
    """List the constants in a literal; keys of dicts only if there are no other constants."""
    keys = [key for node in ast.walk(literal) if isinstance(node, ast.Dict) for key in node.keys if key]
    in_keys = {id(below) for key in keys for below in ast.walk(key)}
    constants = [node for node in ast.walk(literal) if isinstance(node, ast.Constant) and node.value is not ...]
    return [constant for constant in constants if id(constant) not in in_keys] or constants


def change(source: Source, literal: ast.expr, random: Random, familiar: Sequence[Any] = ()) -> Edit:
    """Replace a random constant in a literal by another of its type; put a value into an empty literal.

    About half of the new values come from `familiar`, the test's constants, so that code under test cannot recognise them.
    """
    if _is_empty(literal):
        return source.replace(literal, "[None]" if isinstance(literal, ast.List) else "{None: None}")
    constant = random.choice(_find_values(literal))
    value = constant.value
    others = [other for other in familiar if type(other) is type(value) and other != value]
    is_familiar = others and random.random() < 0.5
    return source.replace(constant, repr(random.choice(others) if is_familiar else _alter(value, random)))


def _alter(value: Any, random: Random) -> Any:
    match value:
        case bool() | None:
            return not value
        case str():
            return _misspell(value, random)
        case bytes():
            return _misspell(value.decode("latin-1"), random).encode("latin-1")
        case complex() | int() | float() if value == value and abs(value) != math.inf:
            steps = [value + random.randrange(1, 6), value * 2, value * 10]
            return next((other for other in steps if other != value and abs(other) != math.inf), 0)
    return 0


def _misspell(text: str, random: Random) -> str:
    """Replace one digit or letter of a text by another, or append a character if there is none."""
    places = [(at, kind) for at, character in enumerate(text) for kind in _KINDS if character in kind]
    if not places:
        return text + "x"
    at, kind = random.choice(places)
    return text[:at] + random.choice(kind.replace(text[at], "")) + text[at + 1 :]


def is_number(node: ast.expr) -> bool:
    """Return True for a number such as `3` or `-0.5`, but not for a truth value."""
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(number, ast.Constant) and type(number.value) in (int, float)


def is_text_or_number(node: ast.expr) -> bool:
    return is_number(node) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def push(source: Source, number: ast.expr, random: Random, *, is_up: bool) -> Edit:
    """Replace a number by a far larger or smaller number."""
    value = ast.literal_eval(number)
    distance = (abs(value) + 1) * random.randrange(1, 10) * _FAR
    return source.replace(number, repr(value + distance if is_up else value - distance))


def spread(source: Source, literal: ast.expr, random: Random) -> Edit:
    """Replace a number in a literal by a far larger one, for comparisons with a tolerance."""
    numbers = [one for one in _find_values(literal) if is_number(one)]
    return push(source, random.choice(numbers), random, is_up=True) if numbers else change(source, literal, random)


def lengthen(source: Source, literal: ast.expr, random: Random) -> Edit:
    """Append random characters to a text, or enlarge a number, so that no container holds the value by chance."""
    text, more = getattr(literal, "value", None), f"{random.getrandbits(32):08x}"
    if not isinstance(text, str | bytes):
        return push(source, literal, random, is_up=True)
    return source.replace(literal, repr(text + more if isinstance(text, str) else text + more.encode()))
