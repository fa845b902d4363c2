"""Changes to make: applied one after the other they give the fixed file, whatever the two files are."""

from hypothesis import given
from hypothesis import strategies as st

from turnsmith.agent.expert.changes import find_change

MODULE = """\
def one(a):
    '''Here b is a + 1.'''
    b = a
    return b


class Two:
    low = 1
    high = 2
"""
lines = st.lists(
    st.sampled_from(["", "a = 1", "def f(x):", "    y = x", "    return y", "class C:", "    z = 2"]), max_size=12
)


def apply(change, text):
    old = text.split("\n")
    return "\n".join([*old[: change.first - 1], *change.lines, *old[change.last :]])


@given(lines, lines, st.integers(0, 5))
def test_repeated_changes_give_the_fixed_file(before, after, short_body):
    text, fixed = "\n".join(before), "\n".join(after)
    for _ in range(len(before) + len(after) + 2):
        if (change := find_change("a.py", text, fixed, short_body)) is None:
            break
        assert 1 <= change.first <= change.last <= len(text.split("\n"))
        text = apply(change, text)
    assert text == fixed


def test_a_short_body_is_rewritten_as_a_whole_and_a_long_one_is_not():
    fixed = MODULE.replace("b = a\n", "b = a + 1\n")
    short, exact = (find_change("a.py", MODULE, fixed, size) for size in (2, 1))
    assert (short.first, short.last, short.lines) == (3, 4, ("    b = a + 1", "    return b"))
    assert (exact.first, exact.last, exact.lines) == (3, 3, ("    b = a + 1",))
    assert short.enclosing.name == "one" and short.first_needed == 1


def test_an_insertion_replaces_the_line_before_it():
    change = find_change("a.py", MODULE, MODULE.replace("    low = 1\n", "    low = 1\n    mid = 1.5\n"), 0)
    assert (change.first, change.last, change.lines) == (8, 8, ("    low = 1", "    mid = 1.5"))


def test_equal_files_need_no_change():
    assert find_change("a.py", MODULE, MODULE, 5) is None
