"""Mutants of passing tests: each is valid Python, and each fails."""

import contextlib
import unittest
from random import Random
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.audit.mutants import find_mutants, to_function
from turnsmith.audit.sources import Source
from turnsmith.types.edits import replace_spans

KILLED = {
    "a number": "assert f(3) == 3",
    "a negative number": "assert f(-3) == -3",
    "a text": "assert f('some text 1.0') == 'some text 1.0'",
    "a text without letters": "assert f('...') == '...'",
    "a long text": 'assert f("a\\nb") == """a\nb"""',
    "a text in parts": "assert f('ab') == ('a'\n 'b')",
    "bytes": "assert f(b'a') == b'a'",
    "nothing": "assert f(None) is None",
    "a truth": "assert f(True) is True",
    "an empty list": "assert f([]) == []",
    "an empty tuple": "assert f(()) == ()",
    "a nest": "assert f({'a': [1, (2, {3})]}) == {'a': [1, (2, {3})]}",
    "the literal first": "assert 3 == f(3)",
    "a chain": "assert f(1) == 1 == f(1)",
    "a conjunction": "assert f(1) == 1 and f(2) and (f(0) or f(3))",
    "a computed value": "assert f(3) == f(1) + f(2), 'a remark'",
    "a computed value over lines": "assert f(3) == (\n        f(1)\n        + f(2)\n    )",
    "a variable": "expected = [1, 2]\n    assert f([1, 2]) == expected",
    "a variable that is read twice": "expected = [1, 2]\n    assert f(expected) == expected",
    "a truth value": "assert f(1)",
    "an inequality": "assert f(1) != 2",
    "a member": "assert 'ell' in f('hello')",
    "no member": "assert 'x' not in f('hello')",
    "a bound": "assert 0 < f(3) <= 10.5 and f(4) > -1",
    "a bound that is no number": "assert f('b') > 'a'",
    "a tolerance": "assert f(0.1) == pytest.approx(0.1) and [0.3] == pytest.approx([0.3])",
    "an exception": "with pytest.raises(KeyError): f({})['a']",
    "an exception by a call": "pytest.raises(KeyError, f({}).__getitem__, 'a')",
    "umlauts before": "assert f('äöü') and f(1) == 1",
    "a loop": "for a, b in [(1, 2), (3, 4)]:\n        assert f(a) + 1 == b",
    "methods": "case.assertEqual(f(1), 1); case.assertTrue(f(1)); case.assertIn('a', f('abc')); case.assertGreater(f(2), 1)",
    "more methods": "case.assertIsNone(f(None)); case.assertAlmostEqual(f(1.0), 1.0); case.assertNotEqual(f(1), 2)",
    "exceptions by methods": "with case.assertRaises(KeyError): f({})['a']",
    "mocks": "mock = Mock(); mock(1, 'a'); mock.assert_called_with(1, 'a')",
    "a block": "with contextlib.nullcontext():\n        try:\n            assert f(1) == 1\n        finally:\n            f(2)",
}  # fmt: skip


def runs(text):
    """Return True if the test of this text passes."""
    names = {"f": lambda value: value, "pytest": pytest, "case": unittest.TestCase(), "Mock": Mock}
    names["contextlib"] = contextlib
    exec(compile(text, "test_it.py", "exec"), names)
    try:
        names["test_it"]()
    except Exception:
        return False
    return True


def mutate(text, seed=0):
    source = Source(text)
    mutants = find_mutants({"a.py": source}, ["a.py::test_it"], Random(seed)).get("a.py::test_it", [])
    return [replace_spans(text, mutant.edits) for mutant in mutants]


@pytest.mark.parametrize("name", KILLED)
def test_every_mutant_of_a_passing_test_fails(name):
    text = f"def test_it():\n    {KILLED[name]}\n"
    assert runs(text)
    for seed in range(20):
        mutants = mutate(text, seed)
        assert mutants and not any(map(runs, mutants)), mutants


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@given(VALUES, st.integers(0, 9))
def test_another_value_is_never_equal(value, seed):
    if "inf" in repr(value):
        return
    text = f"def test_it():\n    assert f({value!r}) == {value!r}\n"
    mutants = mutate(text, seed)
    assert mutants and not any(map(runs, mutants))


LEFT_ALONE = {
    "a branch": "if f(1):\n        assert f(1) == 1",
    "a callback": "def inner():\n        assert f(1) == 1\n    f(inner)",
    "a lambda": "f(lambda: f(1) == 1)",
    "what is caught": "try:\n        assert f(1) == 1\n    except AssertionError:\n        pass",
    "a block that ends early": "with contextlib.suppress(KeyError):\n        assert f(1) == 1",
    "a loop over what the code gives": "for x in f([1]):\n        assert x == 1",
    "what comes after a way out": "if f(1):\n        return\n    assert f(1) == 1",
    "stars": "assert_equal(*f([1]), 2)",
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_code_that_some_runs_skip_is_not_mutated(name):
    assert mutate(f"def test_it():\n    {LEFT_ALONE[name]}\n") == []


@pytest.mark.parametrize("expected", ["x.upper()", "other(x)"])
@pytest.mark.parametrize("order", ["{} == lib.f(x)", "lib.f(x) == {}"])
def test_call_of_an_imported_name_is_under_test(order, expected):
    text = f"import lib\n\n\ndef test_it(x):\n    assert {order.format(expected)}\n"
    [mutant] = find_mutants({"test_a.py": Source(text)}, ["test_a.py::test_it"], Random(0))["test_a.py::test_it"]
    enclosed = text[mutant.edits[0].start : mutant.edits[1].end]
    assert enclosed == expected


def test_parametrize_column_is_changed_in_every_row():
    rows = '@pytest.mark.parametrize("a, b", [(1, 2), pytest.param(3, 4, id="x"), [5, 6]])\n'
    [mutant] = mutate(f"{rows}def test_it(a, b):\n    assert f(a) + 1 == b\n")
    assert all(before not in mutant for before in ("(1, 2)", "(3, 4", "[5, 6]"))
    assert all(before in mutant for before in ("(1, ", "(3, ", "[5, ", 'id="x"'))


def test_find_mutants_returns_functions_with_a_mutant():
    plain = "def test_a():\n    assert f(1) == 1\ndef test_b():\n    f(1)\n"
    text = f"{plain}class TestC:\n    def test_a(self):\n        assert f()\n"
    tests = [
        "a.py::test_a[1]",
        "a.py::test_a[2]",
        "a.py::test_b",
        "a.py::TestC::test_a",
        "a.py::test_gone",
        "b.py::test_a",
    ]
    assert len(find_mutants({"a.py": Source(text)}, tests, Random(0))) == 2
    assert to_function("a.py::test_a[x - y") == "a.py::test_a"
