"""Fragments of a patch that are searched for."""

from hypothesis import given
from hypothesis import strategies as st

from turnsmith.qualification.fragments import changed_paths, make_fragments, new_words
from turnsmith.qualification.record import LeakKind
from turnsmith.synthesis.repositories import make_patch

LINES = st.lists(
    st.sampled_from(["", "    return result", "+++ b/c.py", "@@ -1 +1 @@", "--- a/x", "def f(a, b):", "    pass", "x = {1: 2}"]),
    max_size=30,
)  # fmt: skip


def make_gold_fragments(patch):
    return make_fragments(patch, LeakKind.GOLD_PATCH)


FUNCTION = [
    "def scale(values, factor):",
    '    """Multiply each value."""',
    "    result = []",
    "    for value in values:",
]


@given(before=LINES, after=LINES)
def test_patched_file_holds_every_fragment(before, after):
    old, new = ("".join(line + "\n" for line in lines) for lines in (before, after))
    for fragment in make_gold_fragments(make_patch("a.py", old, new)):
        assert fragment.path == "a.py"
        assert fragment.is_in(new.encode())


@given(patch=st.text(alphabet="+-@ 1,\nab/\\"))
def test_broken_patch_raises_no_error(patch):
    make_gold_fragments(patch)
    changed_paths(patch)
    new_words(patch)


def fragments_of(before, after):
    return make_gold_fragments(make_patch("a.py", "\n".join(before) + "\n", "\n".join(after) + "\n"))


def test_removed_line_is_found_by_its_neighbours():
    after = [*FUNCTION, "        result.append(value * factor)", "    return result"]
    before = [*after[:-1], "        break", after[-1]]
    [fragment] = fragments_of(before, after)
    assert fragment.is_in("\n".join(after).encode())
    assert not fragment.is_in("\n".join(before).encode())


def test_indentation_and_blank_lines_are_ignored():
    after = [*FUNCTION, "        yield value * factor"]
    [fragment] = fragments_of(FUNCTION, after)
    assert fragment.is_in("\r\n\r\n".join(f"\t{line.strip()}" for line in after).encode())


def test_short_addition_is_found_only_in_its_context():
    [fragment] = fragments_of(FUNCTION, [*FUNCTION, "        return result"])
    assert not fragment.is_in(b"def other(things):\n    for thing in things:\n        return result\n")


def test_long_addition_is_found_anywhere():
    added = [f"    self.field_number_{number} = compute_the_field({number})" for number in range(6)]
    fragments = fragments_of(FUNCTION, [*FUNCTION, *added])
    moved = "\n".join(["class Elsewhere:", *added[1:5], "    pass"]).encode()
    assert any(fragment.is_in(moved) for fragment in fragments)


def test_common_lines_are_no_fragment():
    assert fragments_of(["x = 1"], ["x = 1", "y = 2"]) == []
    assert fragments_of(["try:"], ["try:", "    pass", "except OSError:", "    pass"]) == []


ALL_NAMES = """diff --git a/gone.py b/gone.py
deleted file mode 100644
index 1111111..0000000
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x = 1
diff --git a/old.py b/new.py
similarity index 90%
rename from old.py
rename to new.py
index 1111111..2222222 100644
--- a/old.py
+++ b/new.py
@@ -1,3 +1,4 @@
 the_first_line_of_the_renamed_file = 1
+the_second_line_of_the_renamed_file = 2
 the_third_line_of_the_renamed_file = 3
 the_fourth_line_of_the_renamed_file = 4
diff --git "a/\\303\\244.py" "b/\\303\\244.py"
new file mode 100644
index 0000000..1111111
--- /dev/null
+++ "b/\\303\\244.py"
@@ -0,0 +1 @@
+y = 2
"""


def test_changed_paths_include_all_names():
    assert changed_paths(ALL_NAMES) == ["gone.py", "new.py", "old.py", "ä.py"]
    assert {fragment.path for fragment in make_gold_fragments(ALL_NAMES)} == {"new.py", "old.py"}
    assert {"the_second_line_of_the_renamed_file", "new", "py"} <= new_words(ALL_NAMES)


def test_refused_patch_has_no_paths():
    assert changed_paths("diff --git a/../x b/../x\n") == make_gold_fragments("--- a/x\n+++ b/x\n") == []


def test_copy_of_the_patch_is_found():
    added = [f"    self.field_number_{number} = compute_the_field({number})" for number in range(6)]
    patch = make_patch("a.py", "\n".join(FUNCTION) + "\n", "\n".join([*FUNCTION, *added]) + "\n")
    assert all(fragment.is_in(patch.encode()) for fragment in make_gold_fragments(patch))
