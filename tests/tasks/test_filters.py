import pytest

from turnsmith.tasks.filters import has_signal


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
