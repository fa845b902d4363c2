"""Iterations that teach nothing: how many in a row stop a stage, and what the reason says."""

import pytest

from turnsmith.errors import NoSignal
from turnsmith.recipes.silence import check_silence
from turnsmith.runs import write_json

from .conftest import CONFIG, STAGE


@pytest.fixture
def check(make_run):
    """Check a stage whose iterations had so many groups with signal, at a resolved rate."""
    stage = STAGE.model_copy(update={"iterations": 9})
    run = make_run(CONFIG.model_copy(update={"stages": [stage]}))

    def check(signals, rate=0.0):
        for number, with_signal in enumerate(signals):
            metrics = {"groups/with_signal": with_signal, "rollouts/resolved_rate": rate}
            write_json(run.folder.metrics(stage.name, number), metrics)
        check_silence(stage, run)

    return check


@pytest.mark.parametrize("signals", [[], [0, 0], [0, 0, 1], [0, 0, 1, 0, 0], [1, 0, 0]])
def test_a_stage_goes_on_while_some_iteration_taught_something(check, signals):
    check(signals)


@pytest.mark.parametrize(
    ("rate", "remedy"), [(0.0, "easier tasks"), (1.0, "harder tasks"), (0.5, "a larger group_size")]
)
def test_three_silent_iterations_in_a_row_stop_it(check, rate, remedy):
    with pytest.raises(NoSignal, match=rf"one: in 3 .*, {rate:.0%} of .* {remedy}.*--stages.0.max_silent_iterations 6"):
        check([1, 0, 0, 0], rate)
