"""`compare` on handwritten evaluations: pairs, omitted tasks and messages."""

import json
import random

import pytest

from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder, claim, read_json, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import Task, Trajectory, Turn
from turnsmith.ui.breakdown import break_down, name_range
from turnsmith.ui.comparison import compare, describe, describe_verdict
from turnsmith.ui.evaluations import split_address

REPOSITORIES = [f"calc{number}" for number in range(8)]
TASKS = [f"{repository}.swap.{number:08x}" for repository in REPOSITORIES for number in range(5)]


def make_run(path, **stages):
    """Write a run with evaluations on `practice`: rates of TASKS by stage, or changes to a result."""
    folder = RunFolder(path)
    names = [name for name in stages if name not in ("base", "rft")]
    config = {"eval_tasks": {"practice": {"path": None}, "package": {}}, "stages": [{"name": name} for name in names]}
    claim(folder, config | {"rft": {} if "rft" in stages else None, "what_is_this": 1})
    for stage, rates in stages.items():
        write_json(folder.result(stage, "practice"), make_result(rates))
    return folder


def make_result(rates):
    per_task = dict(zip(TASKS, rates, strict=True)) if isinstance(rates, list) else rates
    return {"pass_at_1": sum(per_task.values()) / len(per_task), "num_lost": 0, "per_task": per_task}


def change(folder, stage, **changes):
    file = folder.result(stage, "practice")
    write_json(file, read_json(file) | changes)


@pytest.fixture
def run(tmp_path):
    """Return a run whose stage gains one task of each repository and loses one of the last."""
    after = [float(index % 5 in (0, 1)) for index in range(40)]
    after[35] = 0.0
    return make_run(tmp_path / "run", base=[float(index % 5 == 0) for index in range(40)], stage1=after)


@pytest.fixture
def repeated(run):
    """Return a run whose base policy has the results of `run`."""
    return make_run(run.path.parent / "repeated", base=read_json(run.result("base", "practice"))["per_task"])


def test_an_address_names_a_run_a_stage_or_an_evaluation(tmp_path):
    (tmp_path / "a:b").mkdir()
    assert split_address("runs/a") == ("runs/a", "", "")
    assert split_address("runs/a:base") == ("runs/a", "base", "")
    assert split_address("runs/a:stage1/practice") == ("runs/a", "stage1", "practice")
    assert split_address(f"{tmp_path}/a:b") == (f"{tmp_path}/a:b", "", "")
    assert split_address(f"{tmp_path}/a:b:rft") == (f"{tmp_path}/a:b", "rft", "")


def test_stages_of_one_run_are_paired_by_task(run):
    [comparison] = compare(f"{run.path}:base", f"{run.path}:stage1/practice")
    assert (comparison.after.name, len(comparison.tasks)) == (f"{run.path}:stage1/practice", 40)
    assert comparison.gained == [task for task in TASKS if task.endswith("1")]
    assert comparison.lost == ["calc7.swap.00000000"]
    assert comparison.pairs.mean == pytest.approx(7 / 40)
    assert (comparison.verdict, comparison.pairs.flipped_by) == ("different", "repository")
    assert comparison.pairs.p_value == pytest.approx(2 / 2**7)
    assert comparison.pairs.p_value_mcnemar == pytest.approx(2 * 10 / 2**9)


def test_a_run_alone_is_its_last_checkpoint(run, tmp_path):
    other = make_run(tmp_path / "other", base=[0.5] * 40)
    [comparison] = compare(str(run.path), str(other.path))
    assert [comparison.before.name, comparison.after.name] == [
        f"{run.path}:stage1/practice",
        f"{other.path}:base/practice",
    ]


def test_a_checkpoint_compared_with_itself_shows_no_difference(run):
    [comparison] = compare(str(run.path), str(run.path))
    assert (comparison.verdict, comparison.gained, comparison.lost) == ("noise", [], [])
    assert (comparison.pairs.p_value, comparison.pairs.interval) == (1.0, None)
    assert "A and B are the same evaluation" in describe_verdict(comparison)


def test_each_common_task_set_is_compared_separately(run):
    for stage in ("base", "stage1"):
        write_json(run.result(stage, "package"), make_result({"toolz.swap.00000001": float(stage == "base")}))
    first, second = compare(f"{run.path}:base", f"{run.path}:stage1")
    assert [first.before.name, second.before.name] == [f"{run.path}:base/practice", f"{run.path}:base/package"]
    assert (second.lost, second.verdict) == (["toolz.swap.00000001"], "noise")


def test_two_addressed_evaluations_may_have_task_sets_of_different_names(run):
    write_json(run.result("stage1", "package"), make_result([0.0] * 40))
    [comparison] = compare(f"{run.path}:base/practice", f"{run.path}:stage1/package")
    assert len(comparison.tasks) == 40


def test_tasks_missing_on_one_side_are_listed(run, tmp_path):
    other = make_run(tmp_path / "other", base=dict.fromkeys([*TASKS[:38], "new-1"], 0.5))
    change(other, "base", lost_per_task={TASKS[38]: 1, TASKS[0]: 1}, num_lost=2)
    [comparison] = compare(str(run.path), str(other.path))
    assert comparison.left_out == {
        f"not in {run.path}:stage1/practice": ["new-1"],
        f"every rollout lost to the infrastructure in {other.path}:base/practice": [TASKS[38]],
        f"not in {other.path}:base/practice": [TASKS[39]],
    }
    assert comparison.to_json()["num_rollouts_lost"] == [0, 2]


def save_tasks_of_one_repository(run):
    tasks = [
        Task(
            instance_id=name, repo="one", base_commit="0" * 40, problem_statement="", FAIL_TO_PASS=["t"],
            PASS_TO_PASS=[], patch="", layers=["."],
        )
        for name in TASKS
    ]  # fmt: skip
    save_tasks(run.task_set("practice"), tasks)


def test_repositories_come_from_the_task_file_if_it_exists(run):
    [without] = compare(f"{run.path}:base", str(run.path))
    save_tasks_of_one_repository(run)
    [with_tasks] = compare(f"{run.path}:base", str(run.path))
    assert (set(without.pairs.clusters), set(with_tasks.pairs.clusters)) == (set(REPOSITORIES), {"one"})
    assert with_tasks.pairs.flipped_by == "task"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("{run}:stage2", "{run}", "stage2/.* base/practice, stage1/practice"),
        ("{run}:base/other", "{run}", "no finished evaluation base/other"),
        ("{run}", "{empty}", "empty .*no finished evaluation"),
        ("{run}/nowhere", "{run}", "give a run folder"),
        ("{run}", "{other}", "no task in common"),
    ],
)
def test_incomparable_evaluations_are_usage_errors(run, tmp_path, first, second, message):
    paths = {"run": run.path, "empty": make_run(tmp_path / "empty").path}
    paths["other"] = make_run(tmp_path / "other", base={"x": 1.0}).path
    with pytest.raises(UsageError, match=message):
        compare(first.format(**paths), second.format(**paths))


def test_the_comparison_fits_into_80_columns(turnsmith, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    change(run, "stage1", num_lost=3)
    result = turnsmith("compare", f"{run.path}:base", f"{run.path}:stage1")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = " ".join(result.stdout.split())
    for piece in ("+17.5 points", "95 % interval", "0.016 by sign-flip by repository; 0.039 by exact McNemar",
                  "8: calc0.swap.00000001", "1: calc7.swap.00000000", "lost to the infrastructure",
                  "different B resolves more"):  # fmt: skip
        assert piece in words, words


def test_a_difference_by_chance_has_the_verdict_noise(turnsmith, run, repeated):
    words = " ".join(turnsmith("compare", f"{run.path}:base", repeated.path).stdout.split())
    assert " noise " in words and "in 100% of comparisons" in words


def test_with_few_repositories_the_claim_covers_only_these_tasks(turnsmith, run, repeated):
    save_tasks_of_one_repository(run)
    words, noise = (
        " ".join(turnsmith("compare", f"{run.path}:base", other.path).stdout.split()) for other in (run, repeated)
    )
    assert "95 % interval of these tasks: +" in words and "B resolves more of these tasks: chance" in words
    assert "100% of comparisons of these tasks" in noise
    [entry] = json.loads(turnsmith("compare", f"{run.path}:base", run.path, "--json").stdout)
    assert (entry["flipped_by"], entry["holds_for"]) == ("task", "these tasks")


def test_the_comparison_is_printed_as_json(turnsmith, run):
    [entry] = json.loads(turnsmith("compare", f"{run.path}:base", run.path, "--json").stdout)
    assert (entry["verdict"], entry["num_tasks"], entry["num_repositories"]) == ("different", 40, 8)
    assert entry["lost"] == {"calc7.swap.00000000": [1.0, 0.0]}
    assert entry["interval_95"][0] < entry["difference"] < entry["interval_95"][1]
    assert (entry["flipped_by"], entry["holds_for"]) == ("repository", "repositories such as these")


def test_help_explains_addresses_of_evaluations(turnsmith):
    assert "RUN:STAGE/TASK_SET" in turnsmith("compare", "--help").stdout


def test_a_comparison_names_the_difference_that_it_can_detect_and_the_size_that_would_tell(tmp_path):
    before = [float(index % 5 == 0) for index in range(40)]
    after = [1.0, 1.0, 1.0, 1.0, *before[4:35], 0.0, *before[36:]]
    few = make_run(tmp_path / "few", base=before, stage1=after)
    [comparison] = compare(f"{few.path}:base", f"{few.path}:stage1")
    data = comparison.to_json()
    assert data["verdict"] == "noise" and data["detectable_difference"] > 0.05
    assert dict(describe(comparison))["detects"] == (
        f"true differences of {100 * data['detectable_difference']:.1f} points, with probability 80%; "
        f"5.0 points need about {data['num_repositories_needed']} repositories"
    )


def test_a_significant_difference_needs_no_larger_comparison(run):
    [comparison] = compare(f"{run.path}:base", f"{run.path}:stage1")
    assert comparison.verdict == "different" and "need about" not in dict(describe(comparison))["detects"]


@pytest.fixture
def stages(tmp_path):
    """Return a run with three stages, of which the second is the best by chance."""
    rng = random.Random(0)
    rates = {name: [float(rng.random() < 0.3) for _ in TASKS] for name in ("base", "rft", "stage1", "stage2")}
    order = sorted(("rft", "stage1", "stage2"), key=lambda name: sum(rates[name]))
    return make_run(
        tmp_path / "stages", base=rates["base"], rft=rates[order[0]], stage1=rates[order[2]], stage2=rates[order[1]]
    )


def test_the_best_stage_is_compared_with_a_correction_for_the_choice(stages):
    [plain] = compare(f"{stages.path}:base", f"{stages.path}:stage1")
    [best] = compare(f"{stages.path}:base", f"{stages.path}:best")
    assert best.after.name == plain.after.name == f"{stages.path}:stage1/practice"
    assert best.p_value >= plain.p_value == best.pairs.p_value
    data = best.to_json()
    assert data["b_chosen_among"] == [f"{stages.path}:{name}/practice" for name in ("rft", "stage1", "stage2")]
    assert data["p_value_corrected"] == best.p_value and data["difference_corrected"] < data["difference"]
    assert dict(describe(best))["corrected"].startswith("B is the best of 3; with this taken into account, p is ")
    assert "p_value_corrected" not in plain.to_json() and "corrected" not in dict(describe(plain))


def test_a_difference_that_is_noise_after_the_correction_has_the_verdict_noise(tmp_path):
    before, after = [0.0] * 40, [1.0] * 6 + [0.0] * 34
    others = {f"stage{n}": [float(index % 10 == n) for index in range(40)] for n in range(1, 8)}
    run = make_run(tmp_path / "run", base=before, best1=after, **others)
    save_tasks_of_one_repository(run)
    [plain], [best] = (compare(f"{run.path}:base", f"{run.path}:{stage}") for stage in ("best1", "best"))
    assert (plain.verdict, best.verdict, best.after.name) == ("different", "noise", plain.after.name)
    assert "chance alone gives one as large" in describe_verdict(best)


def test_stages_among_which_b_was_chosen_can_be_named(turnsmith, stages):
    command = ["compare", f"{stages.path}:base", f"{stages.path}:stage1", "--json", "--best-of"]
    [entry] = json.loads(turnsmith(*command, "stage1,stage2").stdout)
    assert entry["b_chosen_among"] == [f"{stages.path}:stage1/practice", f"{stages.path}:stage2/practice"]
    [best] = compare(f"{stages.path}:base", f"{stages.path}:best", ["rft", "stage2"])
    assert best.after.name == f"{stages.path}:stage2/practice"
    for wrong, message in (
        ("rft,stage2", "--best-of lacks stage1"),
        ("stage1,stage9", "no finished evaluation stage9"),
    ):
        result = turnsmith(*command, wrong)
        assert result.exit_code == 2 and message in result.stderr


def test_both_sides_can_be_the_best_of_their_runs(stages, run):
    [comparison] = compare(f"{run.path}:best", f"{stages.path}:best")
    assert (len(comparison.rivals_before), len(comparison.rivals_after)) == (2, 4)
    assert dict(describe(comparison))["corrected"].startswith("A is the best of 2 and B is the best of 4;")


def write_report(file, **ids):
    """Write a report of SWE-bench's harness."""
    write_json(file, {f"{name}_ids": tasks for name, tasks in ids.items()} | {"schema_version": 2})
    return file


def test_a_report_is_compared_with_another_report_and_with_a_run(run, tmp_path):
    first = write_report(
        tmp_path / "a" / "m.a.json", resolved=TASKS[:10], unresolved=TASKS[10:20], empty_patch=TASKS[20:30]
    )
    second = write_report(tmp_path / "b" / "m.b.json", resolved=TASKS[:30], error=TASKS[30:], incomplete=["other"])
    [comparison] = compare(str(first), str(second.parent))
    assert comparison.pairs.means == (10 / 30, 1.0) and len(set(comparison.pairs.clusters)) == 6
    assert comparison.gained == TASKS[10:30] and comparison.left_out == {f"not in {first}": TASKS[30:]}
    [comparison] = compare(f"{run.path}:base", str(second))
    assert comparison.after.rates == dict.fromkeys(TASKS[:30], 1.0) | dict.fromkeys(TASKS[30:], 0.0)


def test_a_report_is_compared_with_each_task_set_that_shares_tasks(run, tmp_path):
    write_json(run.result("base", "package"), make_result({"other": 1.0}))
    report = write_report(tmp_path / "m.a.json", resolved=TASKS)
    [comparison] = compare(f"{run.path}:base", str(report))
    assert comparison.before.name.endswith("base/practice")


@pytest.mark.parametrize(
    ("log", "is_lost"), [("grader_failed: no disk", True), (None, True), ("patch_invalid: no", False)]
)
def test_predictions_that_the_infrastructure_lost_do_not_count(tmp_path, log, is_lost):
    report = write_report(tmp_path / "m.a.json", resolved=["x-1", "x-2"], error=["x-3"])
    folder = tmp_path / "logs" / "run_evaluation" / "a" / "m" / "x-3"
    (folder if log else folder.parent).mkdir(parents=True)
    if log:
        (folder / "run_instance.log").write_text(f">>>>> Applied Patch:\ngrader_failed: in the output\n{log}\n")
    [comparison] = compare(str(report), str(report))
    assert comparison.before.num_lost == is_lost and len(comparison.tasks) == 3 - is_lost


def test_repositories_of_a_report_come_from_its_task_file(tmp_path):
    report = write_report(tmp_path / "m.a.json", resolved=["one", "two"])
    rows = [
        Task(
            instance_id=name, repo="shop", base_commit="0" * 40, problem_statement="", FAIL_TO_PASS=["t"],
            PASS_TO_PASS=[], patch="", layers=["."],
        )
        for name in ("one", "two")
    ]  # fmt: skip
    file = save_tasks(tmp_path / "tasks", rows)
    write_json(tmp_path / "logs" / "run_evaluation" / "a" / "m" / "x" / "y", {})
    write_json(tmp_path / "logs" / "run_evaluation" / "a" / "run.json", {"dataset": str(file)})
    [comparison] = compare(str(report), str(report))
    assert set(comparison.pairs.clusters) == {"shop"}


def test_unclear_reports_are_refused(run, tmp_path):
    folder = tmp_path / "several"
    report = write_report(folder / "m.a.json", resolved=TASKS)
    with pytest.raises(UsageError, match="--best-of names stages"):
        compare(f"{run.path}:base", str(report), ["rft"])
    write_report(folder / "m.b.json", resolved=TASKS)
    with pytest.raises(UsageError, match="holds 2 reports: name one"):
        compare(str(folder), str(report))
    damaged = write_report(tmp_path / "damaged.json", resolved="x-1")
    with pytest.raises(UsageError, match="resolved_ids is no list"):
        compare(str(damaged), str(report))
    other = write_report(tmp_path / "other.json", resolved=["unknown"])
    with pytest.raises(UsageError, match=r"m\.a\.json and .*other\.json have no task in common"):
        compare(str(report), str(other))


def save_mutators(folder, task):
    """Write the tasks of `practice` with a mutator each: `swap` for even ones, `drop` for odd ones, none for the last."""
    tasks = [
        task.model_copy(
            update={
                "instance_id": name,
                "repo": name.partition(".")[0],
                "meta": {"mutator": ("swap", "drop")[number % 2]},
            }
        )
        for number, name in enumerate(TASKS[:-1])
    ]
    save_tasks(folder.task_set("practice"), tasks)


@pytest.fixture
def task():
    return Task(
        instance_id="t", repo="r", base_commit="0", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[], patch="",
        layers=["layer"],
    )  # fmt: skip


def test_gains_are_broken_down_by_a_column_of_the_tasks(run, task):
    save_mutators(run, task)
    [comparison] = compare(f"{run.path}:base", f"{run.path}:stage1")
    rows = break_down(comparison, "mutator")
    assert [(row.value, row.num_tasks) for row in rows] == [("swap", 20), ("drop", 19), ("unknown", 1)]
    assert sum(row.num_gained for row in rows) == len(comparison.gained) == 8
    assert sum(row.num_lost for row in rows) == len(comparison.lost) == 1
    for side in ("before", "after"):
        total = sum(row.num_tasks * getattr(row, side) for row in rows)
        assert total == pytest.approx(sum(getattr(comparison, side).rates.values()))


def test_gains_are_broken_down_by_repository_without_task_files(run):
    [comparison] = compare(f"{run.path}:base", f"{run.path}:stage1")
    rows = break_down(comparison, "repository")
    assert [(row.value, row.num_tasks) for row in rows] == [(repository, 5) for repository in REPOSITORIES]
    assert (rows[-1].num_gained, rows[-1].num_lost) == (1, 1) and rows[0].num_gained == 1


def test_gains_are_broken_down_by_the_turns_of_the_first_evaluation(run):
    for number, task in enumerate(TASKS):
        turns = [Turn(start=0, end=0, text="")] * (3 if number < 10 else 9)
        name = f"eval-base/{task}/0"
        begun = Trajectory(trajectory_id=name, group_id=name, index=0, instance_id=task, iteration=0, seed=0)
        append_trajectory(run.eval_trajectories("base", "practice"), begun.grow(turns=turns))
    [comparison] = compare(f"{run.path}:base", f"{run.path}:stage1")
    assert [(row.value, row.num_tasks) for row in break_down(comparison, "turns")] == [("9 to 16", 30), ("1 to 4", 10)]


@pytest.mark.parametrize(
    ("turns", "name"), [(0, "1 to 4"), (4, "1 to 4"), (5, "5 to 8"), (8, "5 to 8"), (33, "33 to 64")]
)
def test_ranges_of_turns_end_at_powers_of_two(turns, name):
    assert name_range(turns) == name


def test_an_unknown_property_names_the_known_ones(turnsmith, run, task):
    save_mutators(run, task)
    result = turnsmith("compare", f"{run.path}:base", f"{run.path}:stage1", "--by", "colour")
    assert result.exit_code == 2
    assert "no task of practice has it: give one of repository, turns, mutator" in result.stderr
    result = turnsmith("compare", f"{run.path}:base", f"{run.path}:stage1", "--by", "mutator", "--json")
    [data] = json.loads(result.stdout)
    assert [row["value"] for row in data["by_mutator"]] == ["swap", "drop", "unknown"]
    assert "B − A" in turnsmith("compare", f"{run.path}:base", f"{run.path}:stage1", "--by", "mutator").stdout
