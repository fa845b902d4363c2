"""A stage is evaluated on the way, and ends where nothing gets better: both are decided by what is on disk."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pytest import mark, raises

from turnsmith.config import EvalConfig, RunConfig, StageConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.curriculum import choose_pool, draw_tasks
from turnsmith.recipes.evaluate import evaluate_inside, is_evaluated
from turnsmith.recipes.rl import run_stage
from turnsmith.recipes.stopping import count_since_best, has_plateaued
from turnsmith.runs.folder import RunFolder, find_stage, read_json, write_json
from turnsmith.runs.journal import append_trajectory, read_trajectories
from turnsmith.types import Outcome
from turnsmith.ui.reading import list_evaluations, read_results

from .conftest import CONFIG, STAGE, make_attempt

LONG = STAGE.model_copy(update={"iterations": 9})


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=1))
def test_scores_are_counted_from_the_first_maximum(scores):
    since = count_since_best(scores)
    best = scores[len(scores) - 1 - since]
    assert best == max(scores) and best not in scores[: len(scores) - 1 - since]


def write_rates(folder, *rates):
    for iteration, rate in enumerate(rates):
        write_json(folder.iteration("one", iteration).metrics, {"rollouts/resolved_rate": rate})


@mark.parametrize(("plateau", "ends"), [(0, False), (2, True), (3, False)])
def test_a_stage_without_evaluations_uses_its_solve_rates(make_run, folder, plateau, ends):
    write_rates(folder, 0.1, 0.4, 0.2, 0.4)
    assert has_plateaued(LONG.model_copy(update={"plateau": plateau}), 4, make_run()) is ends


def test_a_stage_with_evaluations_uses_only_them(make_run, folder):
    run = make_run(CONFIG.model_copy(update={"eval": EvalConfig(every=2)}))
    run = replace(run, eval_tasks=[replace(run.train_tasks, name="held")])
    run = replace(run, config=run.config.model_copy(update={"eval_tasks": {"held": None}}))
    write_rates(folder, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    for num_done, rate in ((2, 0.5), (4, 0.5), (6, 0.4)):
        write_json(folder.result(f"one@{num_done}", "held"), {"pass_at_1": rate})
    stage = LONG.model_copy(update={"plateau": 2})
    assert [has_plateaued(stage, done, run) for done in (0, 2, 4, 5, 6)] == [False, False, False, False, True]


async def test_a_stage_stops_at_a_plateau(make_run, folder):
    run = make_run()
    write_rates(folder, 0.5, 0.5)
    trainer = await run.policy.start_training(STAGE.optimizer)
    await trainer.save(folder.iteration("one", 1).checkpoint)
    await run_stage(LONG.model_copy(update={"plateau": 1}), run.train_tasks, run)
    assert folder.next_iteration("one") == 2 and not folder.iteration("one", 2).trajectories.exists()


def test_evaluations_inside_a_stage_follow_eval_every():
    assert [at for at in range(7) if is_evaluated(at, EvalConfig(every=3))] == [3, 6]
    assert not any(is_evaluated(at, EvalConfig()) for at in range(7))


async def test_an_evaluation_inside_a_stage_is_listed_and_not_repeated(make_run, folder):
    config = CONFIG.model_copy(update={"eval": EvalConfig(num_runs=1, k=1, every=1), "stages": [LONG]})
    write_rates(folder, 0.5)
    write_json(folder.config, config.model_dump(mode="json") | {"eval_tasks": {"held": {"path": None}}})
    for _ in range(2):
        run = make_run(config)
        run = replace(run, eval_tasks=[replace(run.train_tasks, name="held")])
        await evaluate_inside("one", 1, run)
        assert len(list(read_trajectories(folder.eval_trajectories("one@1", "held")))) == 3
    assert list_evaluations(folder) == [("one@1", "held")]
    assert read_results(folder)[0]["stage"] == "one@1"
    assert folder.eval_trajectories("one@1", "held") in folder.journals()


async def test_an_evaluation_inside_a_stage_uses_the_current_weights(make_run, folder):
    """After one of its two iterations; after the last, it is evaluated as the stage itself."""
    config = CONFIG.model_copy(update={"eval": EvalConfig(num_runs=1, k=1, every=1), "eval_tasks": {"held": None}})
    run = make_run(config)
    run = replace(run, eval_tasks=[replace(run.train_tasks, name="held")])
    for iteration in range(2):
        for task in draw_tasks(run.train_tasks, iteration, STAGE.tasks_per_iteration, CONFIG.seed).tasks:
            for index, outcome in enumerate((Outcome.RESOLVED, Outcome.UNRESOLVED)):
                attempt = make_attempt(f"one-{iteration:04d}/{task.instance_id}/{index}", outcome, turns=1 + index)
                append_trajectory(folder.iteration("one", iteration).trajectories, attempt)
    await run_stage(STAGE, run.train_tasks, run)
    [inside] = folder.path.glob("evals/*")
    played = read_trajectories(folder.eval_trajectories("one@1", "held"))
    assert inside.name == "one@1"
    assert {t.policy_version for t in played} == {read_json(folder.iteration("one", 0).metrics)["optimizer/steps"]}


def test_a_curriculum_can_use_another_run_and_stores_its_choice(make_run, tmp_path, folder):
    other = RunFolder(tmp_path / "other")
    for name, outcome in (
        ("one/a/0", Outcome.RESOLVED),
        ("one/a/1", Outcome.UNRESOLVED),
        ("one/b/0", Outcome.UNRESOLVED),
    ):
        append_trajectory(other.iteration("one", 0).trajectories, make_attempt(name, outcome))
    write_json(other.iteration("one", 0).metrics, {})
    stage = STAGE.model_copy(update={"name": "two", "curriculum": True, "curriculum_from": f"{other.path}:one"})
    run = make_run()
    assert [task.instance_id for task in choose_pool(run.train_tasks, stage, "", run).tasks] == ["a"]
    append_trajectory(other.iteration("one", 0).trajectories, make_attempt("one/b/1", Outcome.RESOLVED))
    assert [task.instance_id for task in choose_pool(run.train_tasks, stage, "", run).tasks] == ["a"]
    assert read_json(folder.curriculum("two")) == ["a"]


@mark.parametrize("reference", ["nowhere:one", "one", ":one", "nowhere:"])
def test_a_missing_stage_is_reported(reference, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with raises(UsageError, match=r"RUN:STAGE"):
        find_stage(reference)


def test_a_curriculum_of_the_first_stage_requires_curriculum_from():
    stage = {"curriculum": True, "curriculum_from": "runs/first:stage1"}
    RunConfig(train_tasks={"practice_tasks": 1}, stages=[stage])
    with raises(ValueError, match="curriculum_from"):
        RunConfig(train_tasks={"practice_tasks": 1}, stages=[{"curriculum": True}])
    with raises(ValueError, match="curriculum = true"):
        StageConfig(curriculum_from="runs/first:stage1")


def test_a_missing_evaluation_set_is_named():
    with raises(ValueError, match="'none'"):
        RunConfig(eval={"every": 1, "sets": ["none"]})
