"""Mistakes of the expert: a search for a misspelt name finds nothing, and a wrong edit changes the syntax tree."""

import ast
import random
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnsmith.agent.expert.mistakes import misspell, spoil


@given(st.text(string.ascii_lowercase + "_", min_size=1, max_size=12), st.integers(0, 99))
@example("process", 0)
@example("process", 1)
@example("aaaa", 0)
def test_a_search_for_a_misspelt_name_does_not_find_the_name(name, seed):
    wanted = misspell(name, random.Random(seed))
    assert wanted and not name.startswith(wanted)


@pytest.mark.parametrize(
    "code",
    [
        "total = price  # the sum - of all",
        '"""Return the sum, less - the part."""\ntotal = price + tax',
        "text = 'it isn\\'t + here' + name",
        'label = "#" + name  # a "quoted > word"',
        "x = 1  # no name",
    ],
)
@pytest.mark.parametrize("seed", range(20))
def test_a_wrong_edit_changes_code_but_no_string_or_comment(code, seed):
    spoilt = "\n".join(spoil(code.split("\n"), random.Random(seed)))
    strings, others = (
        [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)] for text in (code, spoilt)
    )
    assert ast.dump(ast.parse(spoilt)) != ast.dump(ast.parse(code))
    assert [s for s in others if isinstance(s, str)] == [s for s in strings if isinstance(s, str)]
    assert spoilt.partition("  # ")[2] == code.partition("  # ")[2]


def test_comments_alone_have_no_wrong_edit():
    assert spoil(["# the sum - of all"], random.Random(0)) == ["# the sum - of all"]
