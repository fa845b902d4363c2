import ast
import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.rewards.doubles import MAX_TWINS, double_tests, keep_doubles
from turnsmith.rewards.expectations import find_bends
from turnsmith.rewards.literals import Values, bend
from turnsmith.rewards.placeholders import HELPER, PLACEHOLDER, Names, fill_in
from turnsmith.rewards.stated import Surroundings

SOURCE = """import unittest
import pytest

@pytest.mark.parametrize("a", [1, 2])
def test_one(a):
    assert double(a) == a + a

def helper():
    assert False

class TestX:
    class TestY:
        def test_deep(self):
            assert True
    def test_other(self):
        assert False

async def test_two():
    assert double(1) is None
"""


def test_only_the_wanted_tests_are_replaced_wherever_they_are_defined():
    text, doubles = double_tests(
        SOURCE, {place: [""] for place in ("test_one", "TestX::TestY::test_deep", "test_two", "test_nowhere")}
    )
    assert {double.original for double in doubles} == {"test_one", "TestX::TestY::test_deep", "test_two"}
    assert all(PLACEHOLDER.search(double.place) for double in doubles)
    assert len({double.place for double in doubles}) == len(doubles)
    assert "test_one" not in text and "def test_other" in text and "def helper" in text
    assert sum(not double.is_twin for double in doubles) == 3


def test_an_inherited_test_has_a_double_that_calls_it():
    source = "import unittest\nfrom elsewhere import Mixin\nclass TestX(Mixin, unittest.TestCase):\n    pass\n"
    text, (double,) = double_tests(
        source, {place: [""] for place in ("TestX::test_it", "TestNowhere::test_it", "test_it")}
    )
    assert (double.original, double.is_twin) == ("TestX::test_it", False)
    assert f"def {double.place.partition('::')[2]}(self):\n        return self.test_it()" in text


def test_a_file_that_cannot_be_read_has_no_doubles():
    assert double_tests("def test_one(:", {"test_one": [""]}) == ("def test_one(:", [])


def test_a_file_that_is_nested_too_deep_to_be_written_again_has_no_doubles():
    source = f"def test_one():\n    assert {'+'.join(['1'] * 900)} == 900\n"
    ast.parse(source)
    assert double_tests(source, {"test_one": [""]}) == (source, [])


def run(text, double, **names):
    """The name of what a double raises, if anything."""
    scope, drawn = dict(names), Names()
    exec(fill_in(text, drawn), scope)
    try:
        scope[fill_in(double.place, drawn)]()
    except BaseException as error:
        return type(error).__name__
    return ""


class Yes:
    def __eq__(self, other):
        return True


CASES = {
    "assert f() == 3": 3,
    "assert 3 == f()": 3,
    "assert f() == -1": -1,
    "assert f() == 1e300": 1e300,
    "assert f() == 'a' 'b'": "ab",
    "assert f() == b''": b"",
    "assert f() is None": None,
    "assert f() == True": True,
    "assert f() == [1, {'a': (2,)}]": [1, {"a": (2,)}],
    "assert f() == {1, 2}": {1, 2},
    "assert f() == float('inf')": float("inf"),
    "assert f() == 1e999": float("inf"),
    "assert f() == -1e999": -float("inf"),
    "assert f() == len('abc')": 3,
    "expected = [1, 2]; assert f() == expected": [1, 2],
    "expected = 1; expected += 1; assert f() == expected": 2,
    "assert f()": 1,
    "assert not f()": 0,
    "assert f() > 2": 3,
    "assert f() == 1 and f() != 2": 1,
}


@pytest.mark.parametrize("case", CASES)
def test_a_twin_fails_where_its_test_passes(case):
    text, doubles = double_tests(f"def test_it():\n    {case}\n", {"test_it": [""]})
    ends = {double: run(text, double, f=lambda: CASES[case]) for double in doubles}
    assert [end for double, end in ends.items() if not double.is_twin] == [""]
    assert {end for double, end in ends.items() if double.is_twin} == {"AssertionError"}


@pytest.mark.parametrize("case", [case for case in CASES if "f() ==" in case and " and " not in case])
def test_what_equals_everything_passes_a_twin(case):
    text, doubles = double_tests(f"def test_it():\n    {case}\n", {"test_it": [""]})
    assert "" in {run(text, double, f=Yes) for double in doubles if double.is_twin}


METHODS = {
    "self.assertEqual(f(), 3)": 3,
    "self.assertEqual(3, f())": 3,
    "self.assertTrue(f())": True,
    "self.assertFalse(f())": False,
    "self.assertIsNone(f())": None,
    "self.assertIn(f(), [1])": 1,
    "self.assertDictEqual(f(), {'a': 1})": {"a": 1},
    "self.assertRaises(ZeroDivisionError, lambda: 1 / f())": 0,
}


@pytest.mark.parametrize("case", METHODS)
def test_twins_of_assertions_that_are_methods_fail_too(case):
    source = f"import unittest\nclass TestX(unittest.TestCase):\n    def test_it(self):\n        {case}\n"
    text, doubles = double_tests(source, {"TestX::test_it": [""]})
    scope = {"f": lambda: METHODS[case]}
    exec(text, scope)
    for double in doubles:
        if double.is_twin:
            with pytest.raises((AssertionError, ZeroDivisionError)):
                getattr(scope["TestX"](), double.place.partition("::")[2])()
        else:
            getattr(scope["TestX"](), double.place.partition("::")[2])()
    assert any(double.is_twin for double in doubles)


def test_what_a_test_expects_is_bent_where_it_is_written():
    """Code that reads it there finds what is bent, and passes the twin."""
    for source in (
        "def test_it():\n    assert f() == 3\n",
        "def test_it():\n    wanted = 3\n    assert f() == wanted\n",
    ):
        text, doubles = double_tests(source, {"test_it": [""]})
        for twin in [double for double in doubles if double.is_twin]:
            function = next(node for node in ast.parse(text).body if getattr(node, "name", "") == twin.place)
            assert 3 not in [node.value for node in ast.walk(function) if isinstance(node, ast.Constant)]


@pytest.mark.parametrize(
    "source",
    [
        "def test_it():\n    word = 'species'\n    assert f(word) == word\n",
        "def test_it():\n    x = [1, 2]\n    assert f(x) == x\n",
        "import pytest\n@pytest.mark.parametrize('x', [3])\ndef test_it(x):\n    assert f(x) == x\n",
        "def test_it(x=7):\n    assert f(x) == x\n",
    ],
)
def test_a_twin_asks_the_same_question(source):
    """So a fix that is right about more than the gold patch is right about it, too."""
    asked = []
    text, doubles = double_tests(source, {"test_it": ["[3]" if "pytest" in source else ""]})
    scope = {"f": lambda x: (asked.append(x), x)[1]}
    drawn = Names()
    exec(fill_in(text, drawn), scope)
    for double in doubles:
        arguments = [3] if "pytest" in source else []
        with pytest.raises(AssertionError) if double.is_twin else contextlib.nullcontext():
            scope[fill_in(double.place, drawn)](*arguments)
    assert len(asked) == len(doubles) > 2 and asked == asked[:1] * len(doubles)


def test_parameters_are_bent_before_anything_can_look_at_them():
    text, doubles = double_tests("def test_it(a, wanted):\n    assert f(a) == wanted\n", {"test_it": [""]})
    twin = next(double for double in doubles if double.is_twin)
    function = next(node for node in ast.parse(text).body if getattr(node, "name", "") == twin.place)
    assert ast.unparse(function.body[0]).startswith("wanted = ")


def test_a_test_with_one_expectation_has_several_twins_and_no_two_are_alike():
    texts = [double_tests("def test_it():\n    assert f(2, 1) == 3\n", {"test_it": [""]})[0] for _ in range(50)]
    values = [[n for n in re.findall(r"== (\d+)", text.partition(f"def {HELPER}")[0]) if n != "3"] for text in texts]
    assert all(2 < len(bent) == len(set(bent)) <= MAX_TWINS for bent in values)
    assert {"1", "2", "4", "8", "30"} < {value for bent in values for value in bent}


def test_a_test_without_expectations_has_no_twins():
    (test,) = ast.parse("def test_it():\n    print(1)\n").body
    assert find_bends(test, Surroundings((), (), ())) == []


TABLE = """import pytest

ROWS = [("a", "as"), ("b", "bs"), ("c", "cs"), (f(), "ds")]

@pytest.mark.parametrize(("one", "many"), ROWS)
def test_it(one, many):
    assert plural(one) == many
"""


@pytest.mark.parametrize(
    "source",
    [
        TABLE,
        TABLE.replace('("one", "many"), ROWS', '"one, many", [("a", "as"), ["b", "bs"], ("c", "cs")]'),
        TABLE.replace('("b", "bs")', 'pytest.param("b", "bs")').replace(
            '("c", "cs")', 'pytest.param("c", "cs", id="c-cs")'
        ),
        TABLE.replace(", ROWS)", ', ROWS, ids=["a-as", "second", "c-cs", "fourth"])'),
        TABLE.replace('("b", "bs"), ', "").replace(', (f(), "ds")', "").replace(", ROWS)", ", ROWS, ids=repr)"),
    ],
)
def test_rows_are_chosen_by_their_ids_and_bent_where_they_are_written(source):
    text, doubles = double_tests(source, {"test_it": ["[a-as]", "[c-cs]"]})
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert {double.parameters for double in doubles} == {("[row0]", "[row1]")}
    for double in doubles:
        (mark,) = functions[double.place].decorator_list
        rows = dict(ast.literal_eval(mark.args[1]))
        assert rows.keys() == {"a", "c"}
        assert [rows["a"] == "as", rows["c"] == "cs"] == [not double.is_twin] * 2
        assert ast.unparse(functions[double.place].body[0]).endswith("plural(one) == many")


def test_rows_with_marks_of_their_own_are_run_as_they_are():
    source = TABLE.replace('("b", "bs")', 'pytest.param("b", "bs", marks=pytest.mark.slow)')
    text, doubles = double_tests(source, {"test_it": ["[a-as]", "[c-cs]"]})
    assert all(set(double.parameters) == {"[a-as]", "[c-cs]"} for double in doubles) and "marks=" in text


def test_rows_that_are_not_written_out_are_run_as_they_are():
    source = TABLE.replace("ROWS)", "make_rows())")
    text, doubles = double_tests(source, {"test_it": ["[a-as]", "[c-cs]", "[x-xs]"]})
    assert all(set(double.parameters) < {"[a-as]", "[c-cs]", "[x-xs]"} for double in doubles)
    assert text.count("make_rows()") == len(doubles)


@given(
    st.one_of(
        st.integers(),
        st.floats(allow_nan=False),
        st.text(),
        st.binary(),
        st.booleans(),
        st.none(),
    ),
    st.lists(st.one_of(st.integers(), st.text())),
    st.sampled_from(["new", "known"]),
)
def test_what_is_bent_is_another_value(value, others, how):
    values = Values((), others)
    bent = bend(value, values, how)
    assert bent != value
    assert value is None or type(bent) is type(value)
    if how == "known" and values.find_known(value):
        assert bent in others


def test_a_marked_test_is_no_fixture():
    source = "@pytest.mark.usefixtures('db')\ndef test_secret():\n    assert f(7) == 14\n\ndef test_it():\n    assert f(1) == 2\n"
    text, doubles = double_tests(source, {"test_it": [""]})
    assert "secret" not in keep_doubles(text, {doubles[0].name})


@pytest.mark.parametrize(
    "source",
    [
        "def test_it(:",
        "def test_it():\n" + "    assert f(1) == 2\n" * 2_000,
        "def test_it():\n    x = " + "(" * 500 + "1" + ")" * 500,
    ],
)
def test_what_cannot_be_doubled_has_no_doubles(source):
    begun = time.process_time()
    assert double_tests(source, {"test_it": [""]})[1] == []
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "lines",
    [
        [f"    x{n} = g({n})\n    assert f({n}) == x{n}\n" for n in range(300)],
        [f"    x{n + 1} = f(x{n})\n    assert x{n} == x{n + 1}\n" for n in range(300)],
        [f"    assert f({n}) == h9({n})\n" for n in range(300)]
        + [f"def h{n}(x):\n    return h{n + 1}(x)\n" for n in range(600)],
    ],
)
def test_a_long_test_is_doubled_in_no_time(lines):
    source = "def test_it():\n" + "".join(lines)
    begun = time.process_time()
    assert len(double_tests(source, {"test_it": [""]})[1]) > 1
    assert time.process_time() - begun < 5


def test_rows_that_cannot_be_keys_have_no_ids_of_ours():
    source = "import pytest\n@pytest.mark.parametrize('x', [{1: [2]}, {(): {}}, [{}]])\ndef test_it(x):\n    assert f(x) == 1\n"
    _, doubles = double_tests(source, {"test_it": ["[x0]", "[x1]"]})
    assert all(sorted(double.parameters) == ["[x0]", "[x1]"] for double in doubles)


def test_of_every_test_one_twin_is_bent_to_what_it_has_elsewhere_and_one_to_what_it_has_nowhere():
    for _ in range(50):
        text, doubles = double_tests(
            "def test_it():\n    assert merge([(1, 2), (2, 3)]) == [(1, 3)]\n", {"test_it": [""]}
        )
        answers = [line.partition(" == ")[2] for line in text.splitlines() if " == " in line][: len(doubles)]
        bent = [ast.literal_eval(answer) for answer in answers if answer != "[(1, 3)]"]
        assert {all(one in (1, 2, 3) for one in answer[0]) for answer in bent} == {False, True}


def test_a_fixture_is_kept_whatever_its_name():
    source = (
        "import pytest\n@pytest.fixture\ndef test_client():\n    return 1\n\n"
        "def test_it(test_client):\n    assert test_client == 1\n"
    )
    text, doubles = double_tests(source, {"test_it": [""]})
    assert "def test_client" in keep_doubles(text, {doubles[0].name})


def test_what_is_kept_shows_no_other_test_and_no_table_of_theirs():
    source = (
        TABLE + "\nOTHER = [1]\npytestmark = []\n\ndef helper():\n    return OTHER\n\ndef test_b():\n    assert ROWS\n"
    )
    text, doubles = double_tests(source, {"test_it": ["[a-as]"]})
    assert "ROWS = " in text
    (true,) = [double.name for double in doubles if not double.is_twin]
    kept = keep_doubles(text, {true})
    assert "ROWS" not in kept and "test_b" not in kept
    assert "OTHER = [1]" in kept and "pytestmark = []" in kept and "def helper" in kept
    assert kept.count("def test_") == 1 and f"def {true}(" in kept
