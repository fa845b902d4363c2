"""Which tasks to train on. Pure predicates; exact fractions, no rounding."""

from fractions import Fraction

TOO_EASY = Fraction(2, 3)


def has_signal(num_resolved: int, num_rollouts: int) -> bool:
    """Curriculum between the stages: never solved is dropped, solved at 2/3 or more is dropped (paper §4.3).

    1 of 10 and 6 of 10 stay; 0 of 10, 2 of 3 and 7 of 10 go.
    """
    return num_resolved > 0 and Fraction(num_resolved, num_rollouts) < TOO_EASY


def count_changes(patch: str) -> tuple[int, int]:
    """Files and lines (added plus removed) that a git patch changes."""
    num_files = num_lines = old = new = 0
    for line in patch.split("\n"):
        if old > 0 or new > 0:
            num_lines += line[:1] in ("+", "-")
            old -= line[:1] not in ("+", "\\")
            new -= line[:1] not in ("-", "\\")
        elif line.startswith("diff --git "):
            num_files += 1
        elif line.startswith("@@ "):
            old, new = _hunk_lengths(line)
    return num_files, num_lines


def _hunk_lengths(header: str) -> tuple[int, int]:
    """`@@ -3,4 +3 @@` → `(4, 1)`: lines that the hunk covers before and after."""
    _, before, after, *_ = header.split(" ")
    return _length(before), _length(after)


def _length(span: str) -> int:
    return int(span.partition(",")[2] or 1)
