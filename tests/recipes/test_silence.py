"""Iterations without signal: the number that stops a stage, and the message."""

import re
from dataclasses import replace

import pytest

from support.episodes.silence import Silence
from turnsmith.config import GapConfig
from turnsmith.errors import NoSignal
from turnsmith.recipes.rl import run_stage
from turnsmith.recipes.stopping import check_silence
from turnsmith.runs.folder import write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.types import Outcome

from .conftest import CONFIG, STAGE, make_attempt


@pytest.fixture
def check(make_run):
    """Check a stage whose iterations had so many groups with signal, at a resolved rate."""
    stage = STAGE.model_copy(update={"iterations": 9})
    run = make_run(CONFIG.model_copy(update={"stages": [stage]}))

    def check(signals, rate=0.0):
        for number, with_signal in enumerate(signals):
            metrics = {"groups/with_signal": with_signal, "rollouts/resolved_rate": rate}
            write_json(run.folder.iteration(stage.name, number).metrics, metrics)
        check_silence(stage, run)

    return check


@pytest.mark.parametrize("signals", [[], [0, 0], [0, 0, 1], [0, 0, 1, 0, 0], [1, 0, 0]])
def test_a_stage_continues_while_some_iteration_has_signal(check, signals):
    check(signals)


@pytest.mark.parametrize(
    ("rate", "remedy"), [(0.0, "easier tasks"), (1.0, "harder tasks"), (0.5, "a larger group_size")]
)
def test_three_iterations_without_signal_stop_the_stage(check, rate, remedy):
    with pytest.raises(NoSignal, match=rf"one: .*\b3 .*{rate:.0%} of .* {remedy}.*--stages.0.max_silent_iterations 6"):
        check([1, 0, 0, 0], rate)


class Heard(Silence):
    def __init__(self):
        self.said = []

    def log(self, text):
        self.said.append(text)


async def test_iterations_without_signal_warn_and_then_stop_the_stage(make_run, folder):
    """Its log-probs are those of no policy, and none of its rollouts is resolved."""
    stage = STAGE.model_copy(update={"iterations": 2, "max_silent_iterations": 1})
    gap = GapConfig(warn=1e-3, stop=100.0)
    run = replace(
        make_run(CONFIG.model_copy(update={"stages": [stage], "logprob_gap": gap})), progress=(heard := Heard())
    )
    for task in run.train_tasks.tasks:
        for index in range(2):
            name = f"one-0000/{task.instance_id}/{index}"
            append_trajectory(
                folder.iteration("one", 0).trajectories, make_attempt(name, Outcome.UNRESOLVED, turns=1 + index)
            )
    with pytest.raises(NoSignal, match=r"one: .*1 iteration"):
        await run_stage(stage, run.train_tasks, run)
    assert any(re.match("warning: .* one .*iteration 1", said) for said in heard.said)
    assert folder.next_iteration("one") == 1 and not folder.iteration("one", 1).trajectories.exists()
    folder.iteration("one", 0).metrics.unlink()
    telling = stage.model_copy(update={"iterations": 1, "zero_advantage": "final"})
    await run_stage(telling, run.train_tasks, run)
    assert any(re.search(r"logprob_gap\.warn 0\.001.*`turnsmith mismatch RUN`", said) for said in heard.said)
