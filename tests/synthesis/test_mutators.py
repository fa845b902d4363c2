import ast
import heapq
import inspect
import random
import shlex
import string
import textwrap

import pytest

from turnsmith.synthesis.mutators import FAMILIES, find_mutations


def mutate(source):
    """Return `{(name, changed source)}` of every bug in a function given as text."""
    return {(mutation.name, mutation.apply()) for mutation in find_mutations(source)}


def body(*lines):
    return "def f(a, b):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("module", [textwrap, string, heapq, shlex], ids=lambda module: module.__name__)
def test_every_bug_parses_and_changes_the_syntax_tree(module):
    source = inspect.getsource(module)
    before = ast.dump(ast.parse(source))
    mutations = find_mutations(source)
    random.Random(0).shuffle(mutations)
    assert {mutation.family for mutation in mutations} == set(FAMILIES)
    assert all(ast.dump(ast.parse(mutation.apply())) != before for mutation in mutations[::4])


def test_a_bug_changes_nothing_outside_its_function():
    source = inspect.getsource(textwrap)
    clean = {node.name: ast.dump(node) for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    for mutation in find_mutations(source)[::9]:
        changed = {node.name: ast.dump(node) for node in ast.parse(mutation.apply()).body if hasattr(node, "name")}
        assert {name for name in clean if clean[name] != changed[name]} <= {mutation.function.split(".")[0]}


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("return a + b", "arithmetic", "return a - b"),
        ("return a  ==  b", "comparison", "return a  !=  b"),
        ("return a is b", "comparison", "return a is not b"),
        ("return a and b", "boolean", "return a or b"),
        ("return-a", "sign", "return a"),
        ("return 3", "integer", "return 4"),
        ("return 'abc'", "text", "return 'ab'"),
        ("return True", "truth", "return False"),
        ("return a <= b", "off_by_one", "return a < b"),
        ("return a or b", "drop_operand", "return b"),
        ("return 1 if not a else 2", "negate", "return 1 if a else 2"),
        ("return 1 if(a)else 2", "negate", "return 1 if not (a)else 2"),
        ("return sorted(a, key=b)", "unwrap_return", "return a"),
        ("return (a)-b", "operands", "return b-(a)"),
        ("return f'{a}' + b", "operands", "return b + f'{a}'"),
        ("return a(b, 1)", "arguments", "return a(1, b)"),
    ],
)
def test_one_line_bugs_keep_the_formatting(before, name, after):
    assert (name, body(after)) in mutate(body(before))


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        (["if a:", "    return b", "return a"], "remove_if", ["return a"]),
        (["if a:", "    a.append(b)"], "remove_call", ["if a:", "    pass"]),
        (["b = a", "a += 1  # why", "return b"], "remove_assignment", ["b = a", "return b"]),
        (["for x in a:", "    b(x)", "    break"], "remove_exit", ["for x in a:", "    b(x)"]),
        (["x = a", "y = b", "return x"], "statements", ["y = b", "x = a", "return x"]),
        (["if a:", "    b()", "else:", "    return"], "exchange_branches", ["if a:", "    return", "else:", "    b()"]),
    ],
)
def test_statement_bugs(before, name, after):
    assert (name, body(*after)) in mutate(body(*before))


def test_docstrings_annotations_decorators_and_error_texts_are_unchanged():
    source = (
        '__version__ = "1.0"\nLIMIT = 3\n\n\n@cache(maxsize=8)\ndef f(a: Literal["x", 1], *, n: int) -> Literal[2]:\n'
        '    """Say 1 + 1."""\n    b: Literal["y"] = a\n    raise ValueError("no " + b)\n'
    )
    assert find_mutations(source) == []


def test_text_with_line_breaks_keeps_its_parentheses():
    source = body("return (a or", "        b or", "        f)")
    assert ("drop_operand", body("return (a or", "        b)")) in mutate(source)


def test_hashes_are_distinct_and_stable():
    source = inspect.getsource(heapq)
    names = [mutation.hash8 for mutation in find_mutations(source)]
    assert names == [mutation.hash8 for mutation in find_mutations(source)]
    assert len(set(names)) == len(names)


def test_edits_are_correct_after_non_ascii_text():
    assert ("arithmetic", "def é(ä):\n    return 'ü' + ä - 1\n") in mutate("def é(ä):\n    return 'ü' + ä + 1\n")
