from pytest import raises

from turnsmith.errors import UsageError
from turnsmith.recipes.task_sets import TaskSet, check_disjoint
from turnsmith.types import Task


def task_set(name, tmp_path, *names):
    tasks = [
        Task(
            instance_id=n,
            repo="r",
            base_commit="c",
            problem_statement="p",
            patch="",
            layers=["base"],
            FAIL_TO_PASS=["t"],
            PASS_TO_PASS=[],
        )
        for n in names
    ]
    return TaskSet(name, tasks, tmp_path / "tasks.jsonl")


def test_a_task_that_is_trained_on_is_never_evaluated_on(tmp_path):
    train = task_set("train", tmp_path, "a", "b")
    check_disjoint(train, [task_set("x", tmp_path, "c")])
    with raises(UsageError, match=r"eval_tasks.y shares 1 tasks with train_tasks, e.g. b"):
        check_disjoint(train, [task_set("x", tmp_path, "c"), task_set("y", tmp_path, "d", "b")])
