from pytest import raises

from turnsmith.errors import UsageError
from turnsmith.recipes.task_sets import TaskSet, check_disjoint, read_task_set
from turnsmith.tasks.dataset import save_tasks
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


def test_a_held_out_task_is_not_trained_on_wherever_its_file_lies(tmp_path):
    train = task_set("train", tmp_path, "a", "b")
    train.tasks[1].meta["split"] = "heldout"
    with raises(UsageError, match=r"train_tasks holds 1 held-out tasks, e.g. b"):
        check_disjoint(train, [])


def test_a_log_parser_that_nobody_has_is_named_before_anything_is_played(tmp_path):
    (tmp_path / "base").mkdir()
    [task] = task_set("train", tmp_path, "a").tasks
    save_tasks(tmp_path, [task.model_copy(update={"log_parser": "ward"})])
    with raises(UsageError, match=r"tasks.jsonl: a asks for the log parser 'ward': there is pytest, lines"):
        read_task_set("train", tmp_path)
