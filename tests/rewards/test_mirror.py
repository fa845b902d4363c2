import math
import operator
import re
import statistics
from dataclasses import replace
from functools import partial

import pytest

from turnsmith.rewards.mirror import MAX_OTHERS, MAX_TESTS, NUM_SIDES, choose_tests, make_mirror
from turnsmith.rewards.reflections import CUT_SHORT, OUT_OF_TIME, draw_reflection, find_wrong, has_end
from turnsmith.rewards.seal import SealedReport
from turnsmith.rewards.testing import SuiteReport

SOURCE = """import pytest

@pytest.mark.parametrize("x", [1, 2])
def test_a(x):
    assert f(x) == 1

def test_b():
    assert f(2) == 2
    assert f(3) == 2

def test_c():
    pass
"""
FILE = "tests/test_f.py"
TESTS = [f"{FILE}::test_a[1]", f"{FILE}::test_a[2]", f"{FILE}::test_b"]


def make():
    return make_mirror({FILE: SOURCE}, TESTS)


def end_well(reflection):
    """Statuses as of a good patch, and of a test that is none of ours."""
    statuses = {test: "failed" if one.double.is_twin else "passed" for test, one in reflection.tests.items()}
    return report(statuses | {"other.py::test": "error"})


def report(statuses, **how):
    return SuiteReport({}, 1, 0.1, **{"is_finished": True, "sealed": SealedReport(statuses, True, False), **how})


def test_a_reflection_shows_nothing_of_the_names_and_empties_the_files_that_it_stands_for():
    reflection = draw_reflection(make())
    shown = " ".join([*reflection.texts, *reflection.texts.values(), *reflection.tests]).replace(FILE, "")
    assert not re.search(r"test_a\b|test_b\b|double", shown)
    assert reflection.texts[FILE] == "" and len(reflection.texts) == 2
    assert all(path.startswith("tests/test_") for path in reflection.texts)
    assert {test.partition("[")[2] for test in reflection.tests} == {"row0]", "row1]", ""}
    assert reflection.tests.keys() != draw_reflection(make()).tests.keys()


def test_doubles_keep_their_identity_from_run_to_run():
    mirror = make()
    first, second = draw_reflection(mirror), draw_reflection(mirror)
    assert first.read(end_well(first)) == second.read(end_well(second))
    assert first.read(end_well(first)).keys() == mirror.tests
    assert len(mirror.tests) > 2 * 3 + 3  # two rows, and twins
    assert set(first.read(report({})).values()) == {"missing"}


@pytest.mark.parametrize(
    "how, word",
    [
        ({"sealed": None}, CUT_SHORT),
        ({"sealed": SealedReport({}, False, False)}, CUT_SHORT),
        ({"sealed": SealedReport({}, False, False), "timed_out": True}, OUT_OF_TIME),
    ],
)
def test_a_run_without_an_end_says_nothing_of_any_test(how, word):
    reflection = draw_reflection(make())
    good = {test: "failed" if one.double.is_twin else "passed" for test, one in reflection.tests.items()}
    assert set(reflection.read(report(good, **how)).values()) == {word}


def test_what_comes_after_a_whole_report_does_not_count():
    """A twin that fails before it cleans up may leave a thread, for which its process waits."""
    reflection = draw_reflection(make())
    report = replace(end_well(reflection), is_finished=False, timed_out=True)
    assert reflection.read(report) == reflection.read(end_well(reflection))


def test_what_ends_otherwise_than_it_must_is_found():
    reflection = draw_reflection(make())
    good = reflection.read(end_well(reflection))
    twin = next(test for test in good if test.double.is_twin)
    one = next(test for test in good if not test.double.is_twin)
    assert find_wrong(good) == set() and has_end(good)
    assert find_wrong(good | {twin: "passed", one: "skipped"}) == {twin, one}
    assert not has_end(good | {one: CUT_SHORT}) and not has_end(good | {one: OUT_OF_TIME})


def test_only_what_ends_as_it_must_on_gold_is_evidence():
    mirror = make()
    reflection = draw_reflection(mirror)
    ends = reflection.read(end_well(reflection))
    weak = next(test for test in mirror.tests if test.double.is_twin)
    assert mirror.keep_sound([{**ends, weak: "passed"}, ends]).tests == mirror.tests - {weak}
    assert mirror.keep_sound([{}]).tests == set()


def test_twins_of_a_test_that_does_not_pass_on_gold_itself_show_nothing():
    mirror = make()
    ends = {
        test: "failed" if test.double.is_twin or test.original.endswith("test_b") else "passed" for test in mirror.tests
    }
    assert {test.original for test in mirror.keep_sound([ends]).tests} == {f"{FILE}::test_a"}


def test_a_file_whose_tests_are_no_evidence_is_not_shown():
    mirror = make_mirror(
        {FILE: SOURCE, "tests/test_g.py": "def test_g():\n    assert g() == 1\n"}, [*TESTS, "tests/test_g.py::test_g"]
    )
    reflection = draw_reflection(replace(mirror, tests=frozenset(test for test in mirror.tests if test.file == FILE)))
    assert sorted(map(bool, reflection.texts.values())) == [False, False, True]


def versions_of(sides, original):
    """Of each side whether it has a twin of this function."""
    return [{test.double.is_twin for test in side.tests if test.original == original} for side in sides]


def test_each_side_has_every_function_once_in_any_of_its_versions():
    mirror, seen = make(), set()
    for _ in range(60):
        sides = mirror.share_out(TESTS)
        for side in sides:
            originals = {test.original for test in side.tests}
            assert originals == {f"{FILE}::test_a", f"{FILE}::test_b"}
            assert len({test.double for test in side.tests}) == len(originals)
            shown = "".join(draw_reflection(side).texts.values())
            assert shown.count("def test_") == len(originals)
        for original in (f"{FILE}::test_a", f"{FILE}::test_b"):
            assert sorted(map(len, versions_of(sides, original))) == [1] * len(sides)
            num_twins = versions_of(sides, original).count({True})
            assert len(sides) // 2 <= num_twins <= (len(sides) + 1) // 2
        seen.add(str([versions_of(sides, f"{FILE}::{name}") for name in ("test_a", "test_b")]))
    assert len(seen) > 30


def test_what_has_no_twins_stands_on_every_side_as_it_is():
    mirror = make()
    without = replace(
        mirror, tests=frozenset(t for t in mirror.tests if not (t.double.is_twin and t.original.endswith("b")))
    )
    assert versions_of(without.share_out(TESTS), f"{FILE}::test_b") == [{False}] * NUM_SIDES[1]
    bare = replace(mirror, tests=frozenset(test for test in mirror.tests if not test.double.is_twin))
    assert [side.tests for side in bare.share_out(TESTS)] == [bare.tests]
    assert replace(mirror, tests=frozenset()).share_out(TESTS) == []


def test_all_versions_are_spread_over_sides_that_have_every_function():
    mirror = make()
    sides = mirror.spread_out()
    assert frozenset().union(*(side.tests for side in sides)) == mirror.tests
    assert len(sides) == max(
        len({test.double for test in mirror.tests if test.original.endswith(name)}) for name in ("a", "b")
    )
    assert all({test.original for test in side.tests} == {f"{FILE}::test_a", f"{FILE}::test_b"} for side in sides)


def guess_each_test(agrees, num_tests, num_twins):
    """A coin for each test: the chances that a run ends as it must, and that it is taken for an accident."""
    return agrees**num_tests * (1 - agrees) ** num_twins, (1 - agrees**num_tests) * (1 - agrees) ** num_twins


def guess_each_run(agrees, num_tests, num_twins):
    """One coin for a run, which agrees with all or with nothing."""
    return agrees * (not num_twins) + (1 - agrees) * (not num_tests), (1 - agrees) * bool(num_tests)


@pytest.mark.parametrize("guess", [guess_each_test, guess_each_run])
@pytest.mark.parametrize("num_functions", [1, 2, 3, 4, 5, 6])
def test_who_guesses_is_right_less_than_once_in_a_thousand_times(num_functions, guess):
    """Whatever the coin, and though one accident is forgiven, even to who knows what the second try will be."""
    names = [f"test_{number}" for number in range(num_functions)]
    tests = [f"{FILE}::{name}" for name in names]
    mirror = make_mirror({FILE: "".join(f"def {name}():\n    assert f() == 1\n\n" for name in names)}, tests)
    draws = [[count_versions(side) for side in mirror.share_out(tests)] for _ in range(2000)]
    for agrees in (share / 20 for share in range(1, 20)):
        assert statistics.fmean(chance_of_pay(draw, partial(guess, agrees)) for draw in draws) < 0.001


def chance_of_pay(draw, guess):
    """All runs end as they must, or one is an accident, and its second try well: surely where it has no twins."""
    chances = [guess(*counts) for counts in draw]
    again = [shaky * (well if num_twins else 1) for (well, shaky), (_, num_twins) in zip(chances, draw, strict=True)]
    others = [math.prod(well for well, _ in chances[:at] + chances[at + 1 :]) for at in range(len(chances))]
    return math.prod(well for well, _ in chances) + sum(map(operator.mul, again, others))


def count_versions(side):
    num_twins = sum(test.double.is_twin for test in side.tests)
    return len(side.tests) - num_twins, num_twins


def test_a_side_shows_of_each_file_only_what_it_runs():
    other = "tests/test_g.py"
    mirror = make_mirror({FILE: SOURCE, other: SOURCE}, [*TESTS, *(test.replace(FILE, other) for test in TESTS)])
    for side in mirror.share_out(TESTS):
        reflection = draw_reflection(side)
        for path, text in reflection.texts.items():
            ran = {test.partition("[")[0] for test in reflection.tests if test.startswith(f"{path}::")}
            assert text.count("def test_") == len(ran)


def test_some_tests_of_each_kind_are_mirrored():
    others = [f"a.py::test_{number}[x]" for number in range(100)]
    must = [f"b.py::test_{number}[{row}]" for number in range(20) for row in range(2)]
    chosen = choose_tests(must, [*others, "b.py::test_1[9]"])
    assert len({test.partition("[")[0] for test in chosen if test in must}) == MAX_TESTS
    assert len({test.partition("[")[0] for test in chosen if test in others}) == MAX_OTHERS
    assert len(chosen) == 2 * MAX_TESTS + MAX_OTHERS
    assert set(choose_tests(must[:2], others[:1])) == {*must[:2], others[0]}


def test_a_twin_must_fail_and_a_test_must_pass():
    ends = {"passed", "failed", "error", "skipped", "xfailed", "missing"}
    (true, twin) = (next(test for test in make().tests if test.double.is_twin is is_twin) for is_twin in (False, True))
    assert {end for end in ends if true.is_as_it_must(end)} == {"passed"}
    assert {end for end in ends if twin.is_as_it_must(end)} == {"failed", "error", "skipped"}
    assert {end for end in ends if twin.is_evidence(end)} == {"failed", "error"}
