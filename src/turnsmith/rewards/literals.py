"""Constants in a syntax tree, and others that could as well stand there."""

import ast
import string
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from turnsmith.rewards.chance import CHANCE

Bent = Literal["new", "known"]
"""Into what an expectation is bent: something that its test has nowhere, or has elsewhere. A test has twins of both kinds where
there is anything of the kind, so that neither can be told by its values."""


class Values(NamedTuple):
    """What is written in a test, and in all its file."""

    here: Sequence[Any]
    anywhere: Sequence[Any]

    def find_known(self, value: Any) -> list[Any]:
        """What could stand in its place: of the test, or if there is nothing, of its file."""
        return _find_alike(value, self.here) or _find_alike(value, self.anywhere)


_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
_COMPUTED = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Lambda, ast.ListComp, ast.Await, ast.JoinedStr)


def is_written_out(node: ast.expr) -> bool:
    """Is it a literal, with a constant to change in it?"""
    return not any(isinstance(below, _COMPUTED) for below in ast.walk(node)) and bool(find_constants(node))


def is_made_of_literals(node: ast.expr) -> bool:
    """Is it new objects of classes, or `approx`, with what is written out for arguments, such as `[Point(3, y=6)]`?"""
    return not is_written_out(node) and _is_made_of_literals(node) and bool(find_constants(node))


def _is_made_of_literals(node: ast.AST | None) -> bool:
    match node:
        case None | ast.Constant():
            return True
        case ast.UnaryOp():
            return isinstance(node.operand, ast.Constant)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return all(map(_is_made_of_literals, parts))
        case ast.Dict():
            return all(map(_is_made_of_literals, (*node.keys, *node.values)))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name[:1].isupper() or name == "approx":
            return all(map(_is_made_of_literals, (*node.args, *(keyword.value for keyword in node.keywords))))
    return False


def is_fixed(node: ast.expr) -> bool:
    """Is it a literal of something that nobody can change in place?"""
    changeable = (ast.List, ast.Dict, ast.Set)
    return is_written_out(node) and not any(isinstance(below, changeable) for below in ast.walk(node))


def find_answers(literal: ast.expr) -> list[ast.Constant]:
    """Its constants, but for the keys of what has values: these only say where a value is looked for."""
    keys = [key for node in ast.walk(literal) if isinstance(node, ast.Dict) for key in node.keys if key]
    in_keys = {id(below) for key in keys for below in ast.walk(key)}
    constants = find_constants(literal)
    return [constant for constant in constants if id(constant) not in in_keys] or constants


def find_constants(node: ast.AST) -> list[ast.Constant]:
    return [below for below in ast.walk(node) if isinstance(below, ast.Constant) and below.value is not ...]


def read_values(node: ast.AST) -> list[Any]:
    """Of all constants."""
    return [constant.value for constant in find_constants(node)]


def bend_constant(constants: list[ast.Constant], values: Values, how: Bent) -> None:
    """Give one of them another value; one that is written elsewhere only where there is any."""
    known = [one for one in constants if values.find_known(one.value)]
    constant = CHANCE.choice(known if known and how == "known" else constants)
    constant.value = bend(constant.value, values, how)


def bend_argument(constants: list[ast.Constant], values: Values, how: Bent) -> None:
    """As above, but a text in which one sign is another: code that reads it may forgive one too many."""
    constant = CHANCE.choice(constants)
    text = constant.value
    if isinstance(text, str | bytes) and how == "new" and (other := _substitute(text)) != text:
        constant.value = other
    else:
        bend_constant([constant], values, how)


def bend_widely(constants: list[ast.Constant], tolerances: Iterable[Any], values: Values, how: Bent) -> None:
    """As above, but a number far from the one that is expected about."""
    constant = CHANCE.choice(constants)
    reach = 1 + max((abs(one) for one in tolerances if isinstance(one, int | float)), default=0)
    if isinstance(constant.value, int | float) and not isinstance(constant.value, bool):
        constant.value = constant.value * CHANCE.randrange(2, 10) + reach * CHANCE.randrange(3, 10)
    else:
        bend_constant([constant], values, how)


def bend_member(side: ast.expr, values: Values, how: Bent) -> None:
    """Another member to look for, so far off that code which does more than it must has not that one, too."""
    constant = CHANCE.choice(find_answers(side))
    match constant.value:
        case str() | bytes() as text:
            constant.value = _lengthen(text)
        case int() | float() as number if not isinstance(number, bool):
            constant.value = number * 1_000 + CHANCE.randrange(1_000_000, 9_000_000)
        case _:
            bend_constant([constant], values, how)


def push(side: ast.expr, *, is_up: bool) -> None:
    """Move a number of a literal far up or down; what is no number becomes another value."""
    constant = CHANCE.choice(find_answers(side))
    if isinstance(constant.value, int | float) and not isinstance(constant.value, bool):
        distance = (abs(constant.value) + 1) * CHANCE.randrange(1, 100) * 10**6
        is_negative = isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.USub)
        constant.value += distance if is_up is not is_negative else -distance
    else:
        bend_member(constant, Values([], []), "new")


def bend(value: Any, values: Values, how: Bent) -> Any:
    """Another value that could as well be meant: of the same type, and close, or one that is written elsewhere."""
    known = values.find_known(value)
    if known and how == "known":
        return CHANCE.choice(known)
    match value:
        case bool() | None:
            return not value
        case str():
            near: list[Any] = _misspell(value) or [" "]
        case bytes():
            near = _misspell(value) or [b" "]
        case _:
            near = _neighbours(value)
    return CHANCE.choice([other for other in near if other not in values.here] or near)


def _find_alike(value: Any, present: Sequence[Any]) -> list[Any]:
    return [other for other in present if type(other) is type(value) and other != value]


def _neighbours(number: Any) -> list[Any]:
    """Numbers close by, zero for one that is infinite; none is negative where it is not: that would take one more constant."""
    steps = (*(number + step for step in range(-5, 6)), number * 2, number * 10)
    is_signed = isinstance(number, complex) or number < 0
    return [other for other in steps if other != number and (is_signed or other >= 0)] or [type(number)(0)]


def _lengthen(text: Any) -> Any:
    """A text with syllables put in that hardly make a word."""
    at = CHANCE.randrange(len(text) + 1)
    letters = "".join(CHANCE.choice("bdfgklmnprstvz") + CHANCE.choice("aeiou") for _ in range(3))
    return text[:at] + (letters if isinstance(text, str) else letters.encode()) + text[at:]


def _substitute(text: str | bytes) -> str | bytes:
    """A text with a digit in the place of another, or a letter in that of another; itself where it has neither."""
    if isinstance(text, bytes):
        return str(_substitute(text.decode("latin-1"))).encode("latin-1")
    places = [(at, kind) for at, sign in enumerate(text) for kind in _KINDS if sign in kind]
    if not places:
        return text
    at, kind = CHANCE.choice(places)
    return text[:at] + CHANCE.choice(kind.replace(text[at], "")) + text[at + 1 :]


def _misspell(text: Any) -> list[Any]:
    """A text with two neighbours exchanged, one sign twice, one less."""
    at = CHANCE.randrange(len(text)) if text else 0
    doubled = text[:at] + text[at : at + 1] + text[at:]
    less, exchanged = text[:at] + text[at + 1 :], text[:at] + text[at : at + 2][::-1] + text[at + 2 :]
    return [other for other in (doubled, less, exchanged) if other != text]
