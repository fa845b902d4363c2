from random import Random

from turnsmith.synthesis.bugs import Bug, combine, spread
from turnsmith.synthesis.mutators import PROCEDURAL, find_mutations

SOURCE = "def f(a):\n    return a + 1\n\n\ndef g(a):\n    if a:\n        a -= 2\n    return [a, 3]\n"
FOUND = {"p/a.py": find_mutations(SOURCE, PROCEDURAL), "p/b.py": find_mutations(SOURCE, PROCEDURAL)}
FOUND |= {"q/c.py": find_mutations(SOURCE, PROCEDURAL)}


def test_spread_alternates_mutators_and_files_without_duplicates():
    bugs = list(spread(FOUND, Random(0)))
    mutators = {mutation.name for mutation in FOUND["p/a.py"]}
    assert {bug.mutator for bug in bugs[: len(mutators)]} == mutators
    constants = [bug.mutations[0][0] for bug in bugs if bug.mutator == "change_constant"]
    assert set(constants[:3]) == set(FOUND)
    changes = [tuple(bug.changes.items()) for bug in bugs]
    assert len(set(changes)) == len(changes)
    assert [bug.hash8 for bug in bugs] == [bug.hash8 for bug in spread(FOUND, Random(0))]
    assert [bug.hash8 for bug in bugs] != [bug.hash8 for bug in spread(FOUND, Random(1))]


def test_two_mutations_of_one_file_are_both_applied():
    first, second = (next(m for m in FOUND["p/a.py"] if m.name == "change_constant" and m.function == f) for f in "fg")
    for pair in [(first, second), (second, first)]:
        bug = Bug(tuple(("p/a.py", mutation) for mutation in pair))
        assert bug.changes == {"p/a.py": (SOURCE, SOURCE.replace("+ 1", "+ 2").replace("-= 2", "-= 3"))}
        assert (bug.family, bug.mutator) == ("combine", "combine_file")
        assert [part["function"] for part in bug.facts["parts"]] == [mutation.function for mutation in pair]


def test_pairs_change_different_functions_of_a_file_or_files_of_a_folder():
    pairs = list(combine(list(spread(FOUND, Random(0))), Random(0)))
    assert {pair.mutator for pair in pairs} == {"combine_file", "combine_module"}
    for pair in pairs:
        (path, one), (other_path, other) = pair.mutations
        assert path.partition("/")[0] == other_path.partition("/")[0]
        assert path != other_path or one.function != other.function
    assert len({pair.hash8 for pair in pairs}) == len(pairs)


def test_each_bug_is_paired_once_before_any_is_paired_twice():
    bugs = list(spread({"p/a.py": FOUND["p/a.py"]}, Random(0)))
    pairs, used = list(combine(bugs, Random(0))), set()
    assert len(pairs) > len(bugs)
    for pair in pairs[:2]:
        parts = {mutation.hash8 for _, mutation in pair.mutations}
        assert not parts & used
        used |= parts
