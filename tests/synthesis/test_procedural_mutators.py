import ast
import inspect
import random
import string
import textwrap

import pytest

from turnsmith.synthesis.mutators import PROCEDURAL, find_mutations

MUTATORS = {
    "class": {"remove_base", "remove_methods", "shuffle_methods"},
    "control": {"invert_if", "shuffle_lines"},
    "remove": {"remove_assignment", "remove_conditional", "remove_loop", "remove_wrapper"},
    "operator": {"break_chain", "change_constant", "change_operator", "swap_operands"},
}
CLASSES = """
class P:
    @property
    def x(self):
        return 1

    @x.setter
    def x(self, v): ...


class Q(P): ...
"""


def mutate(source, name):
    """Return every changed source that one mutator makes."""
    return [mutation.apply() for mutation in find_mutations(source, PROCEDURAL) if mutation.name == name]


def body(*lines):
    return "def f(a, b):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("invert_if", "return a if f else b", "return b if f else a"),
        ("remove_conditional", "return [x for x in a  if x]", "return [x for x in a]"),
        ("remove_conditional", "return a if f else b", "return b"),
        ("remove_wrapper", "return sorted(a, key=b)", "return a"),
        ("break_chain", "return a and b", "return b"),
        ("break_chain", "return a - b  + f", "return a - b"),
        ("break_chain", "return a - b  + f", "return a  + f"),
        ("break_chain", "return a * (b + f)", None),
        ("break_chain", "return (0 < a  < b)", "return (0 < a)"),
        ("break_chain", "return a.strip().lower()", "return a.strip()"),
        ("change_constant", "return 'abc'", "return 'ab'"),
        ("change_operator", "return a  ==  b", "return a  !=  b"),
        ("change_operator", "return a < b", "return a <= b"),
        ("swap_operands", "return (a)-b", "return b-(a)"),
        ("swap_operands", "return a  < b", "return b  < a"),
        ("swap_operands", "return a == b", None),
        ("swap_operands", "return a(b, 1)", "return a(1, b)"),
    ],
)
def test_one_line(name, before, after):
    made = mutate(body(before), name)
    assert body(after) in made if after else made == []


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("invert_if", ["if a:", "    b()", "else:", "    return"], ["if a:", "    return", "else:", "    b()"]),
        ("invert_if", ["if a:", "    return b"], ["if not (a):", "    return b"]),
        ("shuffle_lines", ["x = a", "if b:", "    x += 1"], ["if b:", "    x += 1", "x = a"]),
        ("shuffle_lines", ["import x", "return a"], None),
        ("remove_assignment", ["b = a", "a += 1  # why", "return b"], ["b = a", "return b"]),
        ("remove_assignment", ["x = a", "return x"], None),
        ("remove_conditional", ["if a:", "    return b", "return a"], ["return a"]),
        ("remove_loop", ["for x in a:", "    b(x)"], ["pass"]),
        ("remove_loop", ["a()", "while b:", "    b.pop()"], ["a()", "if b:", "    b.pop()"]),
        ("remove_loop", ["a()", "while b:", "    break"], ["a()"]),
        ("remove_wrapper", ["try:", "    a()  # why", "except E:", "    b()"], ["a()  # why"]),
        ("remove_wrapper", ["with a:", "    if b:", "        b()", "a()"], ["if b:", "    b()", "a()"]),
        ("remove_wrapper", ["with a as x:", "    x()"], None),
        ("remove_wrapper", ["with a:", "    b('''x", "    y''')"], None),
    ],
)
def test_statements(name, before, after):
    made = mutate(body(*before), name)
    assert body(*after) in made if after else made == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class A(B):  # (old)\n    x = 1\n", ["class A:  # (old)\n    x = 1\n"]),
        ("class A(\n    B, C\n):\n    pass\n", ["class A(\n    C\n):\n    pass\n", "class A(\n    B\n):\n    pass\n"]),
        ("class A(B, metaclass=M): pass\n", ["class A(metaclass=M): pass\n"]),
        ("class A: pass\n", []),
        ("class A(): pass\n", []),
    ],
)
def test_remove_base_keeps_the_other_bases(before, after):
    assert mutate(before, "remove_base") == after


def test_remove_methods_needs_a_base_class_or_special_method():
    special = "class A:\n    @b\n    def __len__(self):\n        return 1\n\n    def f(self):\n        return 2\n"
    assert mutate(special, "remove_methods") == ["class A:\n\n    def f(self):\n        return 2\n"]
    assert mutate("class A(B):\n    def f(self):\n        return 2\n", "remove_methods") == ["class A(B):\n    pass\n"]


def test_shuffle_methods_needs_an_order_that_matters():
    getter, setter = "    @property\n    def x(self): ...\n", "    @x.setter\n    def x(self, to): ...\n"
    other = "    def y(self): ...\n"
    assert mutate(f"class A:\n{getter}{other}{setter}", "shuffle_methods") == [f"class A:\n{setter}{other}{getter}"]
    assert mutate("class A:\n    def x(self): ...\n    def y(self): ...\n", "shuffle_methods") == []


def test_each_mutator_belongs_to_its_family_and_every_bug_compiles():
    source = f"{inspect.getsource(textwrap)}\n\n{inspect.getsource(string)}\n\n{CLASSES}"
    before, mutations = ast.dump(ast.parse(source)), find_mutations(source, PROCEDURAL)
    named = {family: {each.name for each in mutations if each.family == family} for family in PROCEDURAL}
    assert named == MUTATORS
    random.Random(0).shuffle(mutations)
    for mutation in mutations[:200]:
        compile(mutation.apply(), mutation.name, "exec", dont_inherit=True)
        assert ast.dump(ast.parse(mutation.apply())) != before, mutation


def test_undetectable_changes_are_not_made():
    source = (
        '__version__ = "1.0"\nLIMIT = 3\n\n\n@cache(maxsize=8)\ndef f(a: Literal["x", 1], *, n: int) -> Literal[2]:\n'
        '    """Say 1 + 1."""\n    b: Literal["y"] = a\n    raise ValueError("no " + b)\n'
    )
    assert find_mutations(source, PROCEDURAL) == []
