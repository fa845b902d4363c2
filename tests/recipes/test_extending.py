"""Changes to the configuration of a started run, and their effect on finished work."""

import fnmatch
import json
import shutil

import pytest

from conftest import make_config
from turnsmith.config import EndpointConfig, EngineConfig, PricesConfig, RunConfig
from turnsmith.config.files import lay_over
from turnsmith.errors import UsageError
from turnsmith.recipes.extension import FREE, GROWING, extend
from turnsmith.recipes.results import read_config
from turnsmith.runs.folder import claim, read_json, write_json
from turnsmith.tracking.feed import flatten, list_records
from turnsmith.ui.comparison import compare
from turnsmith.ui.curves import draw_curves
from turnsmith.ui.reading import list_evaluations


@pytest.fixture
def extended(run_folder):
    """Extend the finished run by overrides; returns the keys that changed."""

    def change(*overrides):
        old = read_config(run_folder)
        return extend(
            old, lay_over(old.model_dump(mode="json"), list(overrides), run_folder.config, RunConfig), run_folder
        )

    write_json(run_folder.results, [])
    return change


def files(folder):
    return {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


def test_the_same_configuration_changes_no_file(extended, run_folder):
    before = files(run_folder)
    assert extended() == []
    assert files(run_folder) == before


def test_a_configuration_in_the_form_of_an_earlier_version_is_rewritten_once(extended, run_folder):
    """Commit a4027ff2 stored trackers as a list, had no options of sections, and had the key `rollouts.retries`."""
    current = read_json(run_folder.config)
    old = current | {"tracking": [], "rollouts": current["rollouts"] | {"retries": 2}}
    for section in ("engine", "trainer", "sandbox"):
        old[section] = {key: value for key, value in current[section].items() if key != "options"}
    write_json(run_folder.config, old)
    assert extended() == extended() == []
    assert not claim(run_folder, current)
    assert read_json(run_folder.path / "config.json.1") == old and not (run_folder.path / "config.json.2").exists()


def test_more_iterations_rename_the_evaluations_of_the_old_checkpoint(extended, run_folder):
    old = json.loads(run_folder.config.read_text())
    assert extended("--stages.1.iterations", "8") == ["stages.1.iterations"]
    assert read_json(run_folder.config)["stages"][1]["iterations"] == 8
    assert read_json(run_folder.path / "config.json.1") == old
    assert not run_folder.evaluations("stage2").exists() and not run_folder.results.exists()
    assert run_folder.evaluations("stage1").exists()
    assert list_evaluations(run_folder)[-2:] == [("stage2@5", "practice"), ("stage2@5", "package")]
    assert len(list(list_records(RunConfig.model_validate(old), run_folder))) == 19


def test_renamed_evaluations_can_be_compared_and_drawn(extended, run_folder):
    shutil.copytree(run_folder.evaluations("stage2"), run_folder.path / "copy")
    extended("--stages.1.iterations=8")
    shutil.copytree(run_folder.path / "copy", run_folder.evaluations("stage2"))
    for stage in ("stage2", "stage2@5"):
        write_json(
            run_folder.result(stage, "practice"),
            read_json(run_folder.result("base", "practice")) | {"per_task": {"a": 1.0}},
        )
    [comparison] = compare(f"{run_folder.path}:stage2@5", f"{run_folder.path}:stage2/practice")
    assert comparison.before.name == f"{run_folder.path}:stage2@5/practice"
    assert draw_curves(run_folder).exists()


def test_a_stage_can_be_extended_after_a_kill_and_again(extended, run_folder):
    extended("--stages.1.iterations=8")
    before = run_folder.path / "config.json.1"
    shutil.copy(before, run_folder.config)  # as a kill leaves it: put aside, not yet written
    write_json(run_folder.result("stage2", "practice"), {"pass_at_1": 0.5, "per_task": {}})
    assert extended("--stages.1.iterations=9") == ["stages.1.iterations"]
    assert not run_folder.evaluations("stage2").exists()
    assert read_json(run_folder.path / "config.json.2") == read_json(before)


def test_more_runs_of_each_task_keep_the_trajectories(extended, run_folder):
    assert extended("--eval.num_runs", "12", "--eval.k=3") == ["eval.num_runs", "eval.k"]
    for stage in ("base", "stage2"):
        assert not run_folder.result(stage, "practice").exists()
        assert run_folder.eval_trajectories(stage, "practice").exists()
        assert (run_folder.evaluation(stage, "practice") / "result-10-runs.json").exists()


def test_an_evaluation_set_can_be_added_but_not_changed_once_started(extended):
    assert extended("--eval_tasks.more.practice_tasks", "3", "--eval_tasks.more.split=heldout") == ["eval_tasks.more"]
    with pytest.raises(UsageError, match=r"eval_tasks.practice.practice_tasks"):
        extended("--eval_tasks.practice.practice_tasks", "5")


def test_limits_of_the_machine_may_change(extended):
    changes = {
        "rollouts.concurrency": 3,
        "model.threads": 2,
        "sandbox.container_engine": "./podman",
        "tracking": '["wandb"]',
    }
    changed = extended(*(f"--{key}={value}" for key, value in changes.items()))
    assert sorted(changed) == sorted([*changes.keys() - {"tracking"}, "tracking.wandb"])


def test_every_key_that_may_change_exists():
    prices = PricesConfig(input=1.0, output=1.0)
    engine = EngineConfig(openai=EndpointConfig(address="http://localhost/v1", model="m", prices=prices))
    whole = make_config().model_copy(update={"tracking": {"wandb": {"project": "p"}}, "engine": engine})
    keys = flatten(whole.model_dump(mode="json"))
    assert [pattern for pattern in (*FREE, *GROWING) if not fnmatch.filter(keys, pattern)] == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "--stages.1.group_size=4",
            "stages.1.group_size cannot change in .*: start a new run; .*stages",
        ),
        ("--seed=3", "seed cannot change"),
        ("--stages=[]", "stages cannot change"),
        ("--rft=null", "rft cannot change"),
        ("--stages.1.iterations=4", "stages.1.iterations cannot be 4, since 5 are done"),
        ("--stages.0.iterations=8", "stages.0.iterations cannot change, since stage2 has started"),
        ("--eval.num_runs=9", "eval.num_runs cannot be 9, since 10 are done"),
    ],
)
def test_a_key_that_finished_work_depends_on_is_refused(extended, run_folder, override, message):
    before = files(run_folder)
    overrides = ["--eval.k=2"] if "num_runs" in override else ["--rollouts.concurrency=3"]
    with pytest.raises(UsageError, match=message):
        extended(*overrides, override)
    assert files(run_folder) == before
