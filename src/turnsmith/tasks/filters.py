"""Which tasks to train on: exact fractions, no rounding."""

from fractions import Fraction

TOO_EASY = Fraction(2, 3)


def has_signal(num_resolved: int, num_rollouts: int) -> bool:
    """Curriculum between the stages: never solved is dropped, solved at 2/3 or more is dropped (paper §4.3).

    1 of 10 and 6 of 10 stay; 0 of 10, 2 of 3 and 7 of 10 go.
    """
    return num_resolved > 0 and Fraction(num_resolved, num_rollouts) < TOO_EASY
