"""Twins: they fail for whoever is right, pass for whoever agrees with everything, and ask what their test asks."""

import ast
import dataclasses
import enum
import re
from collections import namedtuple
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from turnsmith.rewards.doubles import double_tests, keep_doubles
from turnsmith.rewards.handing import hand_on


class Agreeing:
    """What equals everything, holds everything and lies wherever it is asked to."""

    __eq__ = __contains__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = lambda *_: True
    __hash__ = None
    __getattr__ = __getitem__ = lambda *_: Agreeing()

    def __ne__(self, other):
        return False


@dataclasses.dataclass
class Point:
    x: object
    y: object


def fill(shape):
    """The same shape with what agrees in every place."""
    if isinstance(shape, list):
        return [fill(one) for one in shape]
    if isinstance(shape, dict):
        return {key: fill(one) for key, one in shape.items()}
    return Point(Agreeing(), Agreeing()) if isinstance(shape, Point) else Agreeing()


def change(items, x):
    items.append(x)
    return items


ANSWERS = {
    "assert f() == 4": 4,
    "assert 4 == f()": 4,
    "assert f() == [2, 4]": [2, 4],
    "assert f() == {'a': 2}": {"a": 2},
    "assert f() == WANTED": [2, 4, 6],
    "assert f() == list(range(2, 7, 2))": [2, 4, 6],
    "assert f() == wanted()": 4,
    "assert f() == Point(2, 2)": Point(2, 2),
    "assert f() == Fraction(2, 3)": Fraction(2, 3),
    "assert f() == Decimal('1.5')": Decimal("1.5"),
    "assert f() == date(2020, 1, 1)": date(2020, 1, 1),
    "assert f() == Path('a')": Path("a"),
    "assert f() == pytest.approx(4)": 4,
    "out = f()\n    assert out['a'] == 2": {"a": 2},
    "out = f()\n    assert out['a'] == twice['a']": {"a": 2},
    "out = f()\n    assert out[0] == 6": [6, 0, 0],
    "out = f()\n    assert out.x == 2": Point(2, 3),
    "out = []\n    out.append(f())\n    assert out == [4]": 4,
    "data = [1, 2]\n    data[:] = f()\n    assert data == [2, 4]": [2, 4],
    "assert 'AB' in f()": "XAB",
    "assert f() > 9": 12,
    "assert 0 <= f()": 2,
    "assert f() < -1": -2,
    "assert f() == 4 and f() > 3": 4,
}
NAMES = {"WANTED": [2, 4, 6], "wanted": lambda: 4, "twice": {"a": 2}, "Point": Point, "Fraction": Fraction,
         "Decimal": Decimal, "date": date, "Path": Path, "pytest": pytest}  # fmt: skip


def draw_salts(text):
    return re.sub(r"crooked\d{5}_", "2", re.sub(r"straight\d{5}_", "1", text))


def passes(text, double, *arguments, **names):
    scope = {**NAMES, **names}
    exec(draw_salts(text), scope)
    try:
        scope[double.place](*arguments)
    except (AssertionError, LookupError):
        return False
    return True


@pytest.mark.parametrize("body", ANSWERS)
def test_who_is_right_fails_every_twin_and_who_agrees_with_everything_passes_it(body):
    for _ in range(20):
        text, doubles = double_tests(f"def test_it():\n    {body}\n", {"test_it": [""]})
        assert [passes(text, double, f=lambda: ANSWERS[body]) for double in doubles] == [
            not double.is_twin for double in doubles
        ]
        assert len(doubles) > 2
        assert all(passes(text, double, f=lambda: fill(ANSWERS[body])) for double in doubles)


def note(asked, x):
    asked.append(x[:])
    return x


QUESTIONS = {
    "word = 'species'\n    assert f(word) == word": "species",
    "words = ['species']\n    assert f(words) == words": ["species"],
    "word = 'species'\n    same = word\n    assert f(word) == same": "species",
    "for word in ['species']:\n        assert f(word) == word": "species",
    "items = [1]\n    assert change(f(items), 2) == items": [1],
}


@pytest.mark.parametrize("body", QUESTIONS)
def test_a_twin_asks_what_its_test_asks(body):
    """So a fix that is right about more than the gold patch is right about it, too."""
    for _ in range(20):
        text, doubles = double_tests(f"def test_it():\n    {body}\n", {"test_it": [""]})
        for double in doubles:
            asked = []
            assert passes(text, double, f=partial(note, asked), change=change) is not double.is_twin
            assert asked == [QUESTIONS[body]]


@pytest.mark.parametrize("body", ANSWERS)
def test_a_test_and_its_twin_use_the_same_names(body):
    """But for what asks for the opposite."""
    text, doubles = double_tests(f"def test_it():\n    {body}\n", {"test_it": [""]})
    names = []
    for double in doubles:
        function = next(node for node in ast.parse(text).body if getattr(node, "name", "") == double.place)
        names.append([node.id for node in ast.walk(function) if isinstance(node, ast.Name)])
    assert all(found == names[0] for found in names)


def test_an_expected_exception_becomes_another_one_that_exists():
    source = "import pytest\ndef test_it():\n    with pytest.raises(ValueError):\n        f()\n"
    text, doubles = double_tests(source, {"test_it": [""]})
    raised = [re.findall(r"raises\((\w+)\)", keep_doubles(text, {double.name})) for double in doubles]
    assert raised[0] == ["ValueError"]
    for [name] in raised[1:]:
        assert name != "ValueError" and issubclass(vars(__builtins__)[name] if hasattr(__builtins__, name) else
                                                   __builtins__[name], Exception)  # fmt: skip


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Pair = namedtuple("Pair", "a b")
VALUES = [1, True, None, 1.5, float("inf"), 1j, "a", "", b"a", b"", [], [1, 2], (), (1, "a"), {}, {"a": [1]}, set(), {1},
          frozenset({2}), Fraction(1, 3), Decimal("0.1"), date(2020, 1, 1), Path("a/b"), Colour.RED, Pair(1, 2),
          Point(1, "a"), [Point({"a": (1,)}, None)]]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_helper_gives_another_value_of_the_same_kind_and_shape_or_the_value_itself(value):
    before = repr(value)
    assert hand_on(value, "7") is value
    for salt in ("2", "a4", "fe"):
        other = hand_on(value, salt)
        assert other != value and repr(value) == before
        assert value is None or type(other) is type(value)
        assert not isinstance(value, list | tuple | dict) or not value or len(other) == len(value)


def test_what_has_no_other_is_handed_on_so_that_its_twin_is_no_evidence():
    value = object()
    assert hand_on(value, "2") is value
