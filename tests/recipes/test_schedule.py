"""Standing of a run after an iteration: time left by the pace of the last iterations, solve rate with trend, and tokens/s."""

from dataclasses import replace

from pytest import approx, fixture

from support.episodes.silence import Silence
from turnsmith.config import EvalConfig
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.metrics import find_standing, summary
from turnsmith.recipes.rl import resume, run_stage
from turnsmith.recipes.schedule import estimate_left
from turnsmith.runs.folder import read_json, write_json

from .conftest import CONFIG, STAGE

FIRST, SECOND = (STAGE.model_copy(update={"name": name, "iterations": 4}) for name in ("one", "two"))
METRICS = {
    "rollouts/resolved_rate": 0.25, "rollouts/turns_mean": 2.0, "rollouts/collected": 4, "groups/all": 2,
    "groups/with_signal": 1, "optimizer/steps": 1.0, "contact/flagged_rate": 0.0, "time/collect_s": 8.0, "time/train_s": 4.0,
}  # fmt: skip


class Recorder(Silence):
    def __init__(self):
        self.lines, self.standings = [], []

    def log(self, text):
        self.lines.append(text)

    def show_standing(self, standing):
        self.standings.append(standing)


@fixture
def two_stages(make_run):
    """Return a run of two stages with four iterations of four rollouts each, and an evaluation of three tasks, twice."""
    config = CONFIG.model_copy(update={"stages": [FIRST, SECOND], "eval": EvalConfig(num_runs=2, k=2, every=0)})
    run = make_run(config)
    return replace(run, eval_tasks=[replace(run.train_tasks, name="heldout")])


def finish(run, stage, *numbers, **changes):
    for number in numbers:
        write_json(run.folder.iteration(stage, number).metrics, METRICS | changes)


def test_the_time_left_is_unknown_before_the_first_iteration(two_stages):
    assert estimate_left(two_stages) is None


def test_the_time_left_counts_iterations_and_evaluations_of_all_open_stages(two_stages):
    """An iteration takes 12 s; an evaluation of 6 rollouts takes 12 s, since collecting one takes 2 s."""
    finish(two_stages, "one", 0)
    assert estimate_left(two_stages) == approx(7 * 12 + 2 * 12)
    finish(two_stages, "one", 1, 2, 3)
    assert estimate_left(two_stages) == approx(4 * 12 + 2 * 12)
    finish(two_stages, "two", 0, 1, 2)
    assert estimate_left(two_stages) == approx(12 + 12)


def test_the_time_left_counts_evaluations_inside_a_stage(two_stages):
    config = two_stages.config.model_copy(update={"eval": EvalConfig(num_runs=2, k=2, every=1)})
    run = replace(two_stages, config=config)
    finish(run, "one", 0)
    assert estimate_left(run) == approx(7 * 12 + (3 + 1 + 3 + 1) * 12)


def test_a_stage_that_ended_early_does_not_count(two_stages):
    finish(two_stages, "one", 0)
    finish(two_stages, "two", 0)
    assert estimate_left(two_stages) == approx(3 * 12 + 12)


def test_only_the_last_iterations_give_the_pace(two_stages):
    finish(two_stages, "one", 0, 1, **{"time/collect_s": 800.0})
    finish(two_stages, "one", 2, 3)
    finish(two_stages, "two", 0, 1, 2)
    assert estimate_left(two_stages) == approx(12 + 12)


def test_the_line_about_an_iteration_has_trend_speed_and_time_left(two_stages):
    finish(two_stages, "one", 0)
    first, second = (Iteration(number, FIRST, two_stages) for number in (0, 1))
    now = METRICS | {"rollouts/resolved_rate": 0.5, "tokens/sampled_per_s": 1234.0}
    standing = find_standing(second, now)
    assert (standing.gain, standing.left_s) == (0.25, approx(108))
    line = summary(second, now, standing)
    assert "resolved 50.0% (+25.0 points), " in line
    assert line.endswith(", 8 s + 4 s, 1,234 sampled tokens/s, run: about 0:01:48 left")
    line = summary(first, METRICS, replace(find_standing(first, METRICS), left_s=None))
    assert "resolved 25.0%, " in line and line.endswith("8 s + 4 s")


async def test_a_stage_reports_its_standing_and_again_after_a_resume(make_run, folder):
    run = replace(make_run(), progress=(seen := Recorder()))
    await run_stage(STAGE, run.train_tasks, run)
    first, last = seen.standings
    assert first.gain is None and first.left_s > 0 and last.left_s == 0.0
    metrics = read_json(folder.iteration("one", 1).metrics)
    assert metrics["tokens/sampled_per_s"] == last.tokens_per_s > 0
    assert sum("sampled tokens/s" in line for line in seen.lines) == 2
    again = replace(make_run(), progress=(seen := Recorder()))
    trainer = await again.token_policy.start_training(STAGE.optimizer)
    await resume(trainer, STAGE, again)
    trainer.close()
    assert seen.standings == [last]
