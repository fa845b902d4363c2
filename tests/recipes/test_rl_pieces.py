from collections import Counter
from pathlib import Path

from pytest import approx, fixture, raises

from attempts import attempt
from turnsmith.config import GapConfig, StageConfig
from turnsmith.errors import TrainingError, UsageError
from turnsmith.recipes.rl import apply_curriculum, check_gap, describe, draw_tasks
from turnsmith.recipes.task_sets import TaskSet
from turnsmith.rollouts.samples import to_groups
from turnsmith.runs import RunFolder, append_record
from turnsmith.types import Outcome, Task


def make_task(name):
    return Task(
        instance_id=name, repo="r", base_commit="0", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[], patch="",
        layers=["."],
    )  # fmt: skip


@fixture
def pool():
    return TaskSet("train", [make_task(name) for name in "abcdefg"], Path("tasks.jsonl"))


def test_every_task_comes_up_equally_often_over_whole_passes(pool):
    drawn = Counter(task.instance_id for iteration in range(7) for task in draw_tasks(pool, iteration, 3, seed=5).tasks)
    assert drawn.total() >= 20 and max(drawn.values()) - min(drawn.values()) <= 1


def test_an_iteration_draws_the_same_tasks_again_on_resume_and_others_with_another_seed(pool):
    def names(seed):
        return [task.instance_id for task in draw_tasks(pool, 4, 5, seed).tasks]

    assert names(1) == names(1)
    assert any(names(1) != names(seed) for seed in range(2, 6))


def test_a_pool_smaller_than_an_iteration_is_drawn_once_over(pool):
    assert len(draw_tasks(pool, 3, 100, seed=0).tasks) == 7


def test_the_curriculum_drops_never_solved_and_solved_at_two_thirds(pool, tmp_path):
    folder, before = RunFolder(tmp_path), StageConfig(name="one", iterations=1)
    solved = {"a": 0, "b": 1, "c": 2, "d": 3}
    for name, num in solved.items():
        for index in range(3):
            outcome = Outcome.RESOLVED if index < num else Outcome.UNRESOLVED
            append_record(folder.trajectories("one", 0), attempt(name, index, outcome))
    append_record(folder.trajectories("one", 0), attempt("e", 0, Outcome.SANDBOX_FAILED))
    assert [task.instance_id for task in apply_curriculum(pool, before, folder).tasks] == ["b"]


def test_a_curriculum_that_leaves_nothing_is_an_error_with_a_remedy(pool, tmp_path):
    with raises(UsageError, match=r"leaves none of 7 tasks.*curriculum = false"):
        apply_curriculum(pool, StageConfig(name="one", iterations=1), RunFolder(tmp_path))


def test_lost_rollouts_are_counted_but_not_in_the_rates():
    [group] = to_groups(
        [
            attempt("a", 0, Outcome.RESOLVED),
            attempt("a", 1, Outcome.UNRESOLVED),
            attempt("a", 2, Outcome.SANDBOX_FAILED),
        ],
        StageConfig(),
    )
    metrics = describe([group])
    assert metrics["rollouts/collected"] == 3 and metrics["outcome/sandbox_failed"] == 1
    assert metrics["rollouts/resolved_rate"] == approx(0.5)


def test_a_gap_past_its_bound_stops_the_run():
    check_gap(1e-6, GapConfig())
    with raises(TrainingError, match="does not sample from the policy"):
        check_gap(2.0, GapConfig())
