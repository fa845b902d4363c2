"""Twins: they fail for whoever is right, pass for whoever agrees with everything, and ask what their test asks."""

import ast
import builtins
import contextlib
import dataclasses
import enum
import itertools
import re
import unittest
from collections import OrderedDict, namedtuple
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from turnsmith.rewards.doubles import double_tests, keep_doubles
from turnsmith.rewards.handing import hand_on
from turnsmith.rewards.placeholders import HELPER, Names, fill_in


class Agreeing:
    """What equals everything, holds everything and lies wherever it is asked to."""

    __eq__ = __contains__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = lambda *_: True
    __hash__ = None
    __getattr__ = __getitem__ = lambda *_: Agreeing()

    def __ne__(self, other):
        return False


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


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
    "assert f() == [Point(2, Point(4, 'a'))]": [Point(2, Point(4, "a"))],
    "expected = [Point(2, 2)]\n    assert f() == expected": [Point(2, 2)],
    "assert f() == Colour.RED": Colour.RED,
    "assert f() == f() == 4": 4,
    "assert 3 < f() < 5": 4,
    "try:\n        assert f() == 4\n    except TypeError:\n        raise": 4,
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
    "assert_equal(f(), 4)": 4,
    "words = 'a b'\n    assert f() == words.split()": ["a", "b"],
    "assert f() == ['a', 'b'].copy()": ["a", "b"],
}


def assert_equal(first, second):
    assert first == second


NAMES = {
    "wait_for": lambda check: wait_for(check),
    "ROWS": [(1, "a"), (2, "b")],
    "ABC": b"abc",
    "pair": zip,
    "self": unittest.TestCase(),
    "assert_equal": assert_equal,
    "WANTED": [2, 4, 6],
    "twice": {"a": 2},
    "Point": Point,
    "Colour": Colour,
    "pytest": pytest,
}
HEAD = """
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

def wanted():
    return 4

def wanted_of(x):
    return [x, 4]

CALLS = []
"""


def double_it(body):
    return double_tests(f"{HEAD}\ndef test_it():\n    {body}\n", {"test_it": [""]})


def passes(text, double, *arguments, **names):
    scope, drawn = {**NAMES, **names}, Names()
    exec(fill_in(text, drawn), scope)
    try:
        scope[fill_in(double.place, drawn)](*arguments)
    except (AssertionError, LookupError):
        return False
    return True


@pytest.mark.parametrize("body", ANSWERS)
def test_who_is_right_fails_every_twin_and_who_agrees_with_everything_passes_it(body):
    for _ in range(20):
        text, doubles = double_it(body)
        assert [passes(text, double, f=lambda: ANSWERS[body]) for double in doubles] == [
            not double.is_twin for double in doubles
        ]
        assert len(doubles) > 2
        assert all(passes(text, double, f=lambda: fill(ANSWERS[body])) for double in doubles)


MORE_THAN_ASKED = {
    "assert 404 in f()": range(1000),
    "assert '-' in f()": "usage: it [--verbose] [--help] -x",
    "assert b'a' in f()": b"aaab abba",
    "assert len(f()) > 0": "word " * 10_000,
    "assert f() >= 3": 50_000,
}


@pytest.mark.parametrize("body", MORE_THAN_ASKED)
def test_who_does_more_than_is_asked_fails_every_twin(body):
    for _ in range(20):
        text, doubles = double_it(body)
        assert [passes(text, double, f=lambda: MORE_THAN_ASKED[body]) for double in doubles] == [
            not double.is_twin for double in doubles
        ]


def end(text, double, names):
    try:
        return "passed" if passes(text, double, **names) else "failed"
    except pytest.skip.Exception:
        return "skipped"
    except Exception:
        return "error"


def raising(kind):
    def f():
        raise kind

    return f


class Missing(KeyError, AttributeError, ValueError):
    pass


def swallow(handler):
    with contextlib.suppress(AssertionError):
        handler(5)


def wait_for(check):
    for _ in range(3):
        with contextlib.suppress(AssertionError):
            return check()
    raise TimeoutError


class Strict(str):
    def __init__(self, text):
        assert re.fullmatch("#[0-9a-f]{3}", text.lower()), text

    def __eq__(self, other):
        return self.lower() == other.lower()

    __hash__ = None


class Lenient(Strict):
    def __init__(self, text):
        assert re.fullmatch("#+([0-9a-f]{3,4})?", text.lower()), text

    def __eq__(self, other):
        return {*self.lower()} == {*other.lower()}

    __hash__ = None


def gives(value):
    return {"f": lambda *_: value}


NARROW, MANY = Mock(), Mock()
NARROW(7)
for number in range(100):
    MANY(number)
Row = namedtuple("Row", "a b")
ROWS = [(1, "a"), (2, "b")]
OTHERS = {
    "for got, want in zip(f(), ROWS):\n        assert got == want": (gives(ROWS), gives([Row(*row) for row in ROWS])),
    "for got, want in pair(f(), ROWS):\n        assert got == want": (gives(ROWS), gives([Row(*row) for row in ROWS])),
    "result = f()\n    assert sorted(result) == sorted(ROWS)": (gives(ROWS), gives([Row(*row) for row in ROWS])),
    "got, n = f()\n    assert got == twice": (gives(({"a": 2}, 1)), gives((OrderedDict(a=2), 1))),
    "got = f()\n    assert got == ABC\n    got = f()\n    assert got == ABC": (gives(b"abc"), gives(bytearray(b"abc"))),
    "assert wanted_of(f()) == wanted_of(1)": (gives(1), gives(True)),
    "f.assert_any_call(7)": ({"f": NARROW}, {"f": MANY}),
    "def handler(x):\n        assert x == 5\n    f(handler)": ({"f": lambda handler: handler(5)}, {"f": swallow}),
    "f(lambda x: self.assertEqual(x, 5))": ({"f": lambda handler: handler(5)}, {"f": swallow}),
    "def check():\n        assert f()\n    wait_for(check)": (gives(True), {"f": itertools.cycle([0, 1]).__next__}),
    "try:\n        assert f() == 1\n    except AssertionError:\n        assert f() == 2": (gives(1), gives(2)),
    "assert f() == pytest.approx(310, abs=12)": (gives(300), gives(314.16)),
    "self.assertAlmostEqual(f(), 310, delta=12)": (gives(300), gives(314.16)),
    "assert f() == pytest.approx(0, abs=3)": (gives(0.0), gives(1.5)),
    "assert f() == pytest.approx(3.14, 0.01) and 0.0001 != f()": (gives(3.1416), gives(3.14)),
    "with pytest.raises(ValueError):\n        f()": ({"f": raising(ValueError())}, {"f": raising(Missing())}),
    "def check(x):\n        assert x == 3\n    f(lambda x: check(x))": (
        {"f": lambda handler: handler(3)},
        {"f": swallow},
    ),
    "CALLS.clear()\n    f(CALLS.append)\n    assert CALLS == ROWS[:1]": (
        {"f": lambda note: note((1, "a"))},
        {"f": lambda note: note(Row(1, "a"))},
    ),
    "assert Colour('#FFF') == Colour('#fff')": ({"Colour": Strict}, {"Colour": Lenient}),
    "with pytest.raises(KeyError):\n        f()": ({"f": {}.popitem}, {"f": raising(Missing)}),
    "assert {'names', 'items'} <= {*f()}": (
        gives(["names", "items"]),
        gives(["names", "name", "items", "item", "itms"]),
    ),
}


@pytest.mark.parametrize("body", OTHERS)
def test_who_is_right_in_another_way_passes_no_twin_that_is_evidence(body):
    gold, other = OTHERS[body]
    for _ in range(30):
        text, doubles = double_it(body)
        for double in doubles:
            if double.is_twin and end(text, double, gold) in ("failed", "error"):
                assert end(text, double, other) != "passed"


class Watchful:
    """Of the code under test: would notice who adds to it, copies it, or looks into it."""

    def __eq__(self, other):
        return type(other) is type(self)

    __hash__ = None

    def touch(self, *_):
        raise RuntimeError("touched")

    __add__ = __copy__ = __deepcopy__ = __reduce_ex__ = __iter__ = touch


@pytest.mark.parametrize(
    "body", ["assert f() == g()", "x = f()\n    assert x == g()", "assert f() == [g() for _ in 'a']"]
)
def test_what_the_code_under_test_computes_is_no_expectation(body):
    text, doubles = double_it(body)
    assert HELPER not in text.partition(f"def {HELPER}")[0] and any(double.is_twin for double in doubles)
    text, doubles = double_it("assert f() == P(3, 6)")
    assert all(passes(text, double, f=Watchful, P=lambda *_: Watchful()) for double in doubles)


class BadInput(ValueError):
    pass


class Lost(OSError):
    pass


@pytest.mark.parametrize(
    "expected, raised", [("BadInput", BadInput), ("(OSError, BadInput)", Lost), ("ValueError", BadInput)]
)
def test_an_exception_with_another_base_is_still_the_one_that_is_expected(expected, raised):
    for _ in range(20):
        text, doubles = double_it(f"with pytest.raises({expected}):\n        f()")
        for double in doubles:
            with contextlib.nullcontext() if not double.is_twin else pytest.raises(raised):
                assert passes(text, double, f=raising(raised), BadInput=BadInput)


def test_who_expects_any_exception_has_no_twin():
    for expected in ("Exception", "BaseException", "(ValueError, Exception)"):
        _, doubles = double_it(f"with pytest.raises({expected}):\n        f()")
        assert not any(double.is_twin for double in doubles)


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
        text, doubles = double_it(body)
        for double in doubles:
            asked = []
            assert passes(text, double, f=partial(note, asked), change=change) is not double.is_twin
            assert asked == [QUESTIONS[body]]


@pytest.mark.parametrize("body", ANSWERS)
def test_a_test_and_its_twin_use_the_same_names(body):
    """But for what asks for the opposite."""
    text, doubles = double_it(body)
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
        assert name != "ValueError" and issubclass(getattr(builtins, name), Exception)


Pair = namedtuple("Pair", "a b")
VALUES = [1, True, None, 1.5, float("inf"), 1j, "a", "", b"a", b"", [], [1, 2], (), (1, "a"), {}, {"a": [1]}, set(), {1},
          Colour.RED, frozenset({2}), Fraction(1, 3), Decimal("0.1"), date(2020, 1, 1), Path("a/b"), -1.0, [int, 1],
          [-1.0, -1.0, 2.0], (int, {"a": 0})]  # fmt: skip
NOT_OURS = [object(), int, Pair(1, 2), Point(1, "a"), [Point(1, None)], bytearray(b"a"), {}.keys()]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_helper_gives_another_value_of_the_same_kind_and_shape_or_the_value_itself(value):
    before = repr(value)
    assert hand_on(value, "7") is value
    for salt in ("2", "a4", "fe"):
        other = hand_on(value, salt)
        assert other != value and repr(value) == before
        assert value is None or type(other) is type(value)
        assert not isinstance(value, list | tuple | dict) or not value or len(other) == len(value)


@pytest.mark.parametrize("value", NOT_OURS, ids=lambda value: type(value).__name__)
def test_what_is_not_of_pythons_own_kinds_is_never_touched(value):
    """Its twin shows nothing, and it cannot notice that it should be bent."""
    assert all(hand_on(value, salt) is value for salt in ("7", "2", "a6", "fe"))
    for salt in ("4", "a4", "fc"):
        with pytest.raises(pytest.skip.Exception):
            hand_on(value, salt)
