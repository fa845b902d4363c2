import pytest

from turnsmith.tasks.filters import count_changes, has_signal


@pytest.mark.parametrize(
    ("num_resolved", "num_rollouts", "kept"),
    [
        (0, 10, False),
        (1, 10, True),
        (6, 10, True),
        (7, 10, False),
        (2, 3, False),
        (66, 100, True),
        (4, 6, False),
        (0, 0, False),
    ],
)
def test_the_curriculum_drops_never_solved_and_two_thirds(num_resolved, num_rollouts, kept):
    assert has_signal(num_resolved, num_rollouts) is kept


def patch_of(num_files, num_lines):
    added = "".join(f"+{i}\n" for i in range(num_lines))
    return "".join(
        f"diff --git a/{i} b/{i}\n--- a/{i}\n+++ b/{i}\n@@ -1 +1,{num_lines + 1} @@ def\n same\n{added}"
        for i in range(num_files)
    )


def test_files_and_lines_are_counted_inside_hunks_only():
    assert count_changes(patch_of(3, 4)) == (3, 12)
    tricky = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a/y\n+diff --git a/z b/z\n\\ No newline at end of file\n"
    assert count_changes(tricky) == (1, 2)
    assert count_changes("") == (0, 0)
