from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx, fixture, mark, raises

from support.episodes.attempts import attempt
from turnsmith.config import StageConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.curriculum import apply_curriculum, draw_tasks, is_kept
from turnsmith.recipes.metrics import describe
from turnsmith.rollouts.samples import to_groups
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import append_trajectory
from turnsmith.tasks.task_set import TaskSet
from turnsmith.types import Outcome

from .conftest import make_task


def make_pool(num):
    return TaskSet("train", [make_task(f"task-{index}") for index in range(num)], Path("tasks.jsonl"))


@fixture
def pool():
    return TaskSet("train", [make_task(name) for name in "abcdefg"], Path("tasks.jsonl"))


@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 12), st.integers())
def test_every_iteration_has_all_its_tasks_and_each_task_comes_up_equally_often(size, num, iterations, seed):
    pool, drawn = make_pool(size), Counter({f"task-{index}": 0 for index in range(size)})
    for iteration in range(iterations):
        names = [task.instance_id for task in draw_tasks(pool, iteration, num, seed).tasks]
        assert len(set(names)) == len(names) == min(num, size)
        drawn.update(names)
        assert max(drawn.values()) - min(drawn.values()) <= 1


def test_an_iteration_draws_the_same_tasks_on_resume(pool):
    def names(seed):
        return [task.instance_id for task in draw_tasks(pool, 4, 5, seed).tasks]

    assert names(1) == names(1)
    assert any(names(1) != names(seed) for seed in range(2, 6))


def test_a_pool_smaller_than_an_iteration_is_drawn_once(pool):
    assert len(draw_tasks(pool, 3, 100, seed=0).tasks) == 7


def test_passes_differ_in_their_order(pool):
    orders = {tuple(task.instance_id for task in draw_tasks(pool, pass_, 7, seed=0).tasks) for pass_ in range(5)}
    assert len(orders) == 5


@mark.parametrize(
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
    assert is_kept(num_resolved, num_rollouts) is kept


def test_the_curriculum_drops_never_solved_and_solved_at_two_thirds(pool, tmp_path):
    folder = RunFolder(tmp_path)
    solved = {"a": 0, "b": 1, "c": 2, "d": 3}
    for name, num in solved.items():
        for index in range(3):
            outcome = Outcome.RESOLVED if index < num else Outcome.UNRESOLVED
            append_trajectory(folder.iteration("one", 0).trajectories, attempt(name, index, outcome))
    append_trajectory(folder.iteration("one", 0).trajectories, attempt("e", 0, Outcome.SANDBOX_FAILED))
    assert [task.instance_id for task in apply_curriculum(pool, folder, "one").tasks] == ["b"]


def test_solve_rates_count_all_iterations_of_the_stage(pool, tmp_path):
    folder = RunFolder(tmp_path)
    for iteration, outcome in enumerate([Outcome.RESOLVED, Outcome.UNRESOLVED, Outcome.UNRESOLVED]):
        append_trajectory(folder.iteration("one", iteration).trajectories, attempt("a", 0, outcome))
        append_trajectory(folder.iteration("one", iteration).trajectories, attempt("b", 0, Outcome.RESOLVED))
    assert [task.instance_id for task in apply_curriculum(pool, folder, "one").tasks] == ["a"]


def test_a_curriculum_that_leaves_no_task_is_an_error(pool, tmp_path):
    with raises(UsageError, match=r"none of 7 tasks.*curriculum = false"):
        apply_curriculum(pool, RunFolder(tmp_path), "one")


def test_lost_rollouts_do_not_count_in_solve_rates():
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
