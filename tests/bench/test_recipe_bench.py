"""Tests of `bench/recipe.py` on run folders written by hand."""

import runpy
from pathlib import Path

import pytest

from turnsmith.runs.folder import RunFolder, write_json
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import Task

RECIPE = Path(__file__).parents[2] / "bench/recipe.py"
REPOSITORIES = [f"calc{index}-1.0.0" for index in range(26)]
TASKS = [f"{repository}.swap.{task:08x}" for repository in REPOSITORIES for task in range(4)]
RATES = {"base": 0.0, "rft": 0.4, "stage1": 0.6, "stage2": 0.8}
CONTROL_RATES = RATES | {"stage1": 0.4, "stage2": 0.35}


def make_config(seed, permuted=(False, False), learning_rate=1e-4):
    names = ("stage1", "stage2")
    stages = [
        {"name": name, "iterations": 1, "permute_rewards": value} for name, value in zip(names, permuted, strict=True)
    ]
    return {"seed": seed, "rft": {"learning_rate": learning_rate}, "stages": stages}


def make_run(folder, config, rates=RATES, tasks=TASKS):
    """Write a run folder in which every tenth task is resolved at every stage, so that the base is not at 0."""
    write_json(RunFolder(folder).config, config)
    for stage in config["stages"]:
        write_json(RunFolder(folder).iteration(stage["name"], 0).metrics, {"optimizer/steps": 4.0})
    for stage, rate in rates.items():
        per_task = {task: 1.0 if index % 10 == 0 else rate for index, task in enumerate(tasks)}
        result = {"pass_at_1": sum(per_task.values()) / len(tasks), "sem": 0.02, "per_task": per_task}
        write_json(RunFolder(folder).result(stage, "practice"), result)
    return folder


@pytest.fixture
def runs(tmp_path):
    return [make_run(tmp_path / f"seed-{seed}", make_config(seed)) for seed in range(3)]


@pytest.fixture
def control(tmp_path):
    return make_run(tmp_path / "control-0", make_config(0, (True, True)), CONTROL_RATES)


@pytest.fixture
def judge(monkeypatch, capsys):
    """Return a function that runs the script and returns exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", [str(RECIPE), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(RECIPE), run_name="__main__")
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def refusals(judge):
    """Return a function that runs a failing check and returns the lines after the table."""

    def check(*arguments):
        code, stdout, stderr = judge(*arguments, "--check")
        assert code == 1, stdout + stderr
        return stdout.rpartition("\n\n")[2].splitlines()

    return check


def test_three_good_seeds_and_a_control_meet_all_bounds(judge, runs, control):
    code, stdout, _ = judge(*runs, "--control", control, "--check")
    assert stdout.endswith("\n\nall bounds are met\n")
    assert code == 0


def test_the_table_can_be_pasted_into_the_documentation(judge, runs, control):
    lines = judge(*runs, "--control", control, "--markdown")[1].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]
    assert [row[0] for row in cells] == ["run", "---", "seed-0", "seed-1", "seed-2", "control-0"]
    assert {len(row) for row in cells} == {8}
    assert cells[2][1:5] == ["10.6% ± 2.0%", "46.3% ± 2.0%", "82.1% ± 2.0%", "7.76"]


def test_a_check_without_runs_fails(refusals):
    assert refusals() == ["0 seeds, not 3", "no control"]


def test_a_missing_run_is_named(judge, tmp_path):
    code, _, stderr = judge(tmp_path / "nowhere", "--check")
    assert code == 2
    assert str(tmp_path / "nowhere") in stderr


def test_a_run_without_rl_is_named(judge, tmp_path):
    code, _, stderr = judge(make_run(tmp_path / "short", make_config(0) | {"stages": []}))
    assert code == 2
    assert "short has no RL stage" in stderr


def test_a_run_given_three_times_counts_once(refusals, runs, control):
    assert refusals(runs[0], runs[0], runs[0], "--control", control) == [
        "1 seeds, not 3",
        "3 runs of 1 seeds: one run is given twice",
    ]


def test_runs_that_differ_by_more_than_their_seed_are_refused(refusals, runs, control):
    write_json(RunFolder(runs[1]).config, make_config(1, learning_rate=1e-3))
    assert refusals(*runs, "--control", control) == [
        "seed-1: differs from seed-0 by rft.learning_rate, not by its seed alone"
    ]


def test_few_tasks_are_refused(refusals, runs, control):
    make_run(runs[0], make_config(0), RATES, TASKS[:96])
    make_run(control, make_config(0, (True, True)), CONTROL_RATES, TASKS[:96])
    assert refusals(*runs, "--control", control) == ["seed-0: 96 tasks, not 100", "control-0: 96 tasks, not 100"]


@pytest.mark.parametrize(
    ("rates", "missed"),
    [
        ({"base": 0.0, "rft": 0.1, "stage2": 0.28}, ["final 3.37 x base, not 3.5"]),
        ({"base": 0.0, "rft": 0.95, "stage2": 0.9}, ["RFT is not between base and final", "RL gains -4.5%, not 12%"]),
        ({"base": 0.0, "rft": 0.8, "stage2": 0.9}, ["RL gains 8.9%, not 12%"]),
        ({"base": 0.5, "rft": 0.5, "stage2": 0.9}, ["base 55.3%, not 5% to 15%", "final 1.65 x base, not 3.5",
                                                    "RFT is not between base and final",
                                                    "the difference between base and RFT is not significant"]),
    ],
)  # fmt: skip
def test_each_run_must_meet_each_bound(refusals, runs, control, rates, missed):
    make_run(runs[2], make_config(2), rates)
    assert refusals(*runs, "--control", control) == [f"seed-2: {bound}" for bound in missed]


def test_a_gain_in_a_single_repository_is_not_significant(refusals, runs, control):
    """The gain is in one repository of 84 tasks; 20 tasks of other repositories do not change."""
    tasks = [f"calc.swap.{task:08x}" for task in range(84)] + TASKS[-20:]
    for stage, rate in {"base": 0.0, "rft": 0.3, "stage2": 0.6}.items():
        per_task = {task: rate if task.startswith("calc.") else 0.3 for task in tasks}
        result = {"pass_at_1": sum(per_task.values()) / 104, "sem": 0.0, "per_task": per_task}
        write_json(RunFolder(runs[0]).result(stage, "practice"), result)
    assert refusals(*runs, "--control", control) == [
        "seed-0: the difference between base and RFT is not significant",
        "seed-0: the difference between RFT and final is not significant",
    ]


def test_a_control_that_gains_is_refused(refusals, runs, control):
    make_run(control, make_config(0, (True, True)))
    [refusal] = refusals(*runs, "--control", control)
    assert refusal == "control-0: gains 35.8% on permuted rewards, not less than one SEM of 2.0%"


def test_a_control_that_gains_less_than_one_standard_error_is_accepted(judge, runs, control):
    make_run(control, make_config(0, (True, True)), CONTROL_RATES | {"stage2": 0.42})
    assert judge(*runs, "--control", control, "--check")[0] == 0


def test_a_control_without_optimizer_steps_is_refused(refusals, runs, control):
    for stage in ("stage1", "stage2"):
        write_json(RunFolder(control).iteration(stage, 0).metrics, {"optimizer/steps": 0.0})
    assert refusals(*runs, "--control", control) == ["control-0: it took no optimizer step"]


def test_held_out_kinds_are_reported_separately(judge, runs):
    """One of four tasks of each repository has a held-out kind; every tenth task is resolved at every stage."""
    tasks = [Task(instance_id=name, repo="r", base_commit="c", problem_statement="p", patch="", layers=["base"],
                  FAIL_TO_PASS=["t"], PASS_TO_PASS=[], meta={"kind": "voyages" if index % 4 == 0 else "ledgers"})
             for index, name in enumerate(TASKS)]  # fmt: skip
    for run in runs:
        save_tasks(RunFolder(run).task_set("practice"), tasks)
    lines = judge(*runs, "--kinds")[1].splitlines()
    assert "| seed-0 | trained kinds, 78 tasks | 6.4% | 43.8% | 62.6% | 81.3% |" in lines
    assert "| seed-0 | held-out kinds, 26 tasks | 23.1% | 53.8% | 69.2% | 84.6% |" in lines


@pytest.mark.parametrize(
    ("config", "refusal"),
    [
        (make_config(0, (True, False)), "control-0: rewards are not permuted in every stage"),
        (make_config(0), "control-0: rewards are not permuted in every stage"),
        (
            make_config(0, (True, True), learning_rate=1e-12),
            "control-0: differs from the runs by rft.learning_rate, not by its rewards alone",
        ),
        (make_config(7, (True, True)), "control-0: differs from the runs by seed, not by its rewards alone"),
    ],
)
def test_a_control_that_differs_by_more_than_permuted_rewards_is_refused(refusals, runs, control, config, refusal):
    write_json(RunFolder(control).config, config)
    assert refusals(*runs, "--control", control) == [refusal]


def test_a_control_is_not_accepted_as_a_run(refusals, runs, control):
    make_run(runs[1], make_config(1, (True, True)))
    assert "seed-1: its rewards are permuted: pass it with --control" in refusals(*runs, "--control", control)
