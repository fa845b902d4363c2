import pytest

from turnsmith.errors import UsageError
from turnsmith.journals import append_trajectory
from turnsmith.runs import RunFolder, claim, read_json, write_json
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import Outcome, Task
from turnsmith.ui.reading import (
    RESULT_FIELDS,
    find_task,
    read_iterations,
    read_outline,
    read_results,
    read_trajectories,
)

TASK = Task(
    instance_id="practice-1.swap.1f3a9c04", repo="practice-1", base_commit="0" * 40, problem_statement="It is broken.",
    FAIL_TO_PASS=["t"], PASS_TO_PASS=[], patch="", layers=["."],
)  # fmt: skip


def test_results_come_in_the_order_of_the_run(run_folder):
    results = read_results(run_folder)
    assert [result["stage"] for result in results] == [
        "base",
        "base",
        "rft",
        "rft",
        "stage1",
        "stage1",
        "stage2",
        "stage2",
    ]
    assert [result["task_set"] for result in results[:2]] == ["practice", "package"]
    assert all(tuple(result) == RESULT_FIELDS for result in results)


@pytest.mark.parametrize("text", ["{}", "[]", '{"stage": "base"}', "{", ""])
def test_a_damaged_result_is_named(run_folder, text):
    file = run_folder.result("base", "practice")
    file.write_text(text)
    with pytest.raises(UsageError, match=f"{file} is damaged"):
        read_results(run_folder)


def test_iterations_come_in_the_order_of_the_run_and_rft_is_one(run_folder):
    iterations = [(iteration.stage, iteration.number) for iteration in read_iterations(run_folder)]
    assert iterations == [("rft", 0), *(("stage1", n) for n in range(5)), *(("stage2", n) for n in range(5))]


def test_trajectories_are_found_by_the_beginning_of_their_id(run_folder):
    assert len(list(read_trajectories(run_folder, "eval-base"))) == 2
    assert [t.trajectory_id for t in read_trajectories(run_folder, "eval-rft/practice-1.swap.1f3a9c04/1")] == [
        "eval-rft/practice-1.swap.1f3a9c04/1"
    ]
    assert list(read_trajectories(run_folder, "practice")) == []


def test_of_a_rollout_that_was_lost_and_made_again_only_the_last_is_read(run_folder):
    first, second = read_trajectories(run_folder, "eval-base")
    made_again = first.model_copy(update={"outcome": Outcome.RESOLVED, "detail": "made again"})
    [journal] = [path for path in run_folder.journals() if first.trajectory_id in path.read_text()]
    append_trajectory(journal, made_again)
    assert list(read_trajectories(run_folder, "eval-base")) == [made_again, second]
    assert list(read_trajectories(run_folder, first.trajectory_id)) == [made_again]


def test_the_task_of_a_trajectory_is_found_where_its_set_is(run_folder):
    assert find_task(run_folder, TASK.instance_id) is None
    save_tasks(run_folder.task_set("practice"), [TASK])
    assert find_task(run_folder, TASK.instance_id) == TASK


def test_of_a_configuration_only_what_is_shown_is_looked_at(run_folder):
    before, config = read_outline(run_folder), read_json(run_folder.config)
    config |= {"gone": 1, "rft": config["rft"] | {"num_wizards": 3}, "sandbox": {"kind": "local", "memory_mb": "much"}}
    config["stages"] = [stage | {"algorithm": "ours"} for stage in config["stages"]]
    write_json(run_folder.config, config)
    assert read_outline(run_folder) == before.model_copy(update={"rft": config["rft"]})
    assert len(read_results(run_folder)) == 8


def test_a_configuration_without_what_is_shown_names_its_key(tmp_path):
    folder = RunFolder(tmp_path)
    claim(folder, {"stages": [{"iterations": 3}]})
    with pytest.raises(UsageError, match=r"config.json: key 'stages.0.name' is missing"):
        read_outline(folder)


def test_a_result_of_an_older_version_has_gaps(run_folder):
    file = run_folder.result("base", "practice")
    write_json(file, {"pass_at_1": 0.2, "per_task": {"a": 0.2}})
    assert read_results(run_folder)[0] == dict.fromkeys(RESULT_FIELDS) | {
        "stage": "base",
        "task_set": "practice",
        "pass_at_1": 0.2,
    }
