"""Curation from the command line: folders that appear whole, layers that are still found, one sentence for each fault."""

import json

import pytest

from support.data_sets.set_rows import make_mined_row, make_rebench_row, write_rows
from turnsmith.config import SandboxConfig
from turnsmith.qualification.record import Passes, Qualification, Verdict, make_key
from turnsmith.runs.folder import append_record, read_records
from turnsmith.tasks.dataset import layer_paths, load_tasks
from turnsmith.types import TaskTree


def assert_refused(result, *pieces):
    assert result.exit_code == 2, result.output
    [sentence] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert all(str(piece) in sentence for piece in pieces), sentence


def read_json_lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def layered(tmp_path):
    """Three tasks with a shared layer beside the file, one of them with a layer given by its full path, too."""
    folder = tmp_path / "in" / "deep"
    for name in ("shared", "own", "elsewhere"):
        (folder / name).mkdir(parents=True)
        (folder / name / f"{name}.py").write_text(name)
    rows = [
        make_rebench_row(f"owner__repo-{number}", num_files=1 + 4 * number, image_name="", layers=["shared", "own"])
        for number in range(3)
    ]
    rows[1]["layers"] = ["shared", str(folder / "elsewhere")]
    write_rows(folder / "tasks.jsonl", rows)
    return folder


def make_record(task, file, **columns):
    key = make_key(TaskTree(task, layer_paths(task, file)), SandboxConfig())
    return Qualification(instance_id=task.instance_id, key=key, verdict=Verdict.QUALIFIED, **columns)


def test_kept_tasks_find_their_layers_and_records(turnsmith, tmp_path, layered):
    file, out = layered / "tasks.jsonl", tmp_path / "out" / "kept"
    for task in load_tasks(layered):
        append_record(layered / "qualification.jsonl", make_record(task, file, repeats=50))
    result = turnsmith("tasks", "filter", layered, "--filter", "complexity", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert [task.instance_id for task in load_tasks(out)] == ["owner__repo-0", "owner__repo-1"]
    before = [layer_paths(task, file) for task in load_tasks(layered)][:2]
    assert [layer_paths(task, out / "tasks.jsonl") for task in load_tasks(out)] == before
    assert read_json_lines(out / "dropped.jsonl") == [
        {"instance_id": "owner__repo-2", "filter": "max-files", "reason": "9 modified files"}
    ]
    report = json.loads(result.stdout)
    assert report.pop("folder") == str(out) and report == json.loads((out / "funnel.json").read_text())
    assert [stage["left"] for stage in report["stages"]] == [2, 2]
    records = list(read_records(out / "qualification.jsonl", Qualification))
    assert [record.key for record in records] == [
        make_key(TaskTree(task, layer_paths(task, out / "tasks.jsonl")), SandboxConfig()) for task in load_tasks(out)
    ]


def test_records_of_runs_are_read(turnsmith, tmp_path, layered):
    first, second, third = load_tasks(layered)
    file = layered / "tasks.jsonl"
    uneven = make_record(second, file, repeats=50, passes={"a": Passes(base=50, gold=50), "t": Passes(base=0, gold=49)})
    for record in (make_record(first, file, repeats=50), uneven, make_record(third, file, missing_names=["to_area"])):
        append_record(layered / "qualification.jsonl", record)
    result = turnsmith(
        "tasks", "filter", layered, "--filter", "missing-names", "--filter", "flaky", "--out", tmp_path / "out"
    )
    assert result.exit_code == 0, result.output
    assert [(row["filter"], row["reason"]) for row in read_json_lines(tmp_path / "out/dropped.jsonl")] == [
        ("flaky", "t in 50 repeats"),
        ("missing-names", "missing names: to_area"),
    ]
    assert "1 of 3 tasks kept" in result.stdout and "flaky=50" in result.stdout


def test_kept_rows_do_not_change_by_a_byte(turnsmith, tmp_path):
    rows = [make_rebench_row(f"r-{number}", odd=["é", 1.0, None, "\x1b[2J"]) for number in range(3)]
    file = write_rows(tmp_path / "in.jsonl", rows)
    assert turnsmith("tasks", "filter", file, "--filter", "english", "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out/tasks.jsonl").read_bytes() == file.read_bytes()
    assert (
        turnsmith("tasks", "filter", file, "--filter", "english", "--limit", 2, "--out", tmp_path / "two").exit_code
        == 0
    )
    assert len(read_json_lines(tmp_path / "two/tasks.jsonl")) == 2


def test_a_later_filter_overrides_an_earlier_one(turnsmith, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", [make_rebench_row()])
    result = turnsmith(
        "tasks", "filter", file, "--filter", "paper", "--filter", "max-files=2", "--json", "--out", tmp_path / "out"
    )
    assert [stage["filter"] for stage in json.loads(result.stdout)["stages"]] == [
        "missing-names", "max-files=2", "max-lines=499", "llm-score=3", "flaky=50",
    ]  # fmt: skip


def test_tasks_with_unknown_values_can_be_dropped(turnsmith, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", [make_rebench_row("a"), make_rebench_row("b", scores=(-1, 0, 0))])
    out = tmp_path / "out"
    result = turnsmith("tasks", "filter", file, "--filter", "llm-score", "--unknown", "drop", "--out", out)
    assert result.exit_code == 0 and read_json_lines(out / "dropped.jsonl")[0]["reason"] == "no difficulty_score"


def test_existing_folders_are_refused_and_no_partial_folder_stays(turnsmith, tmp_path):
    file = write_rows(tmp_path / "in" / "tasks.jsonl", [make_rebench_row(scores=(3, 0, 0))])
    ask = ("tasks", "filter", file, "--filter")
    assert_refused(turnsmith(*ask, "llm-score", "--out", tmp_path / "in"), "exists already")
    assert_refused(turnsmith(*ask, "paper", "--out", tmp_path / "out"), "none of the 1 tasks", "1 at llm-score=3")
    assert_refused(turnsmith(*ask, "papers", "--out", tmp_path / "out"), "no filter 'papers'")
    assert_refused(turnsmith("tasks", "filter", file, "--out", tmp_path / "out"), "no filter is given")
    assert_refused(turnsmith(*ask[:2], tmp_path / "no", "--filter", "paper", "--out", tmp_path / "out"), "no task file")
    file.write_bytes(file.read_bytes() + b"{")
    assert_refused(turnsmith(*ask, "english", "--out", tmp_path / "out"), "line 2", "not valid JSON")
    file.write_bytes(b"")
    assert_refused(turnsmith(*ask, "english", "--out", tmp_path / "out"), "holds no task")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_a_split_is_repeatable_and_its_layers_are_found(turnsmith, tmp_path, layered):
    rows = [
        json.loads(line) | {"repo": f"owner/name-{number}x"}
        for number, line in enumerate((layered / "tasks.jsonl").read_text().splitlines())
    ]
    write_rows(layered / "tasks.jsonl", rows)
    ask = ("tasks", "split", layered, "--into", "train=0.5,eval=0.5", "--seed", "1", "--json", "--out")
    first, second = (turnsmith(*ask, tmp_path / name) for name in "ab")
    assert first.exit_code == 0, first.output
    counts = json.loads(first.stdout)["parts"]
    assert sum(counts.values()) == 3 and counts == json.loads(second.stdout)["parts"]
    for part, count in counts.items():
        tasks = load_tasks(tmp_path / "a" / part)
        assert len(tasks) == count and tasks == load_tasks(tmp_path / "b" / part)
        assert all(layer_paths(task, tmp_path / "a" / part / "tasks.jsonl") for task in tasks)


def test_a_split_with_an_empty_part_is_refused(turnsmith, tmp_path, layered):
    ask = ("tasks", "split", layered, "--into", "train=0.5,eval=0.5", "--out", tmp_path / "out")
    assert_refused(turnsmith(*ask), "1 repository cannot be divided among 2 parts", "--by id")
    assert not (tmp_path / "out").exists()
    assert_refused(turnsmith(*ask[:4], "train=1", *ask[5:]), "--into train=1")


def test_a_split_by_date_puts_older_tasks_first(turnsmith, tmp_path):
    rows = [make_mined_row(f"t{day}", date=f"2024-05-{day:02}T12:00:00+02:00") for day in (9, 4, 7, 1, 3)]
    file, ask = write_rows(tmp_path / "mined.jsonl", rows), ("--by", "date", "--into", "train=0.6,eval=0.4", "--out")
    result = turnsmith("tasks", "split", file, *ask, tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    parts = {
        part: [row["instance_id"] for row in read_json_lines(tmp_path / "out" / part / "tasks.jsonl")]
        for part in ("train", "eval")
    }
    assert parts == {"train": ["t4", "t1", "t3"], "eval": ["t9", "t7"]}
    assert_refused(turnsmith("tasks", "split", file, "--limit", 1, *ask, tmp_path / "one"), "eval", "share")
    write_rows(file, [*rows, make_mined_row("timeless", date=None)])
    refused = turnsmith("tasks", "split", file, *ask, tmp_path / "no")
    assert_refused(refused, "mined.jsonl, line 6", "'timeless'", "--by repo")
    assert not (tmp_path / "no").exists()


def test_merged_tasks_find_their_layers_and_records(turnsmith, tmp_path, layered):
    file, parts, out = layered / "tasks.jsonl", tmp_path / "parts", tmp_path / "far" / "away" / "merged"
    tasks = load_tasks(layered)
    append_record(layered / "qualification.jsonl", make_record(tasks[0], file, repeats=5))
    turnsmith("tasks", "split", layered, "--into", "a=0.5,b=0.5", "--by", "id", "--seed", 2, "--out", parts)
    result = turnsmith("tasks", "merge", parts / "a", parts / "b", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert sum(json.loads(result.stdout)["files"].values()) == len(tasks)
    merged = {task.instance_id: task for task in load_tasks(out)}
    for task in tasks:
        assert layer_paths(merged[task.instance_id], out / "tasks.jsonl") == layer_paths(task, file)
    [record] = read_records(out / "qualification.jsonl", Qualification)
    assert record.instance_id == tasks[0].instance_id


def test_a_task_in_two_merged_files_is_refused(turnsmith, tmp_path, layered):
    result = turnsmith("tasks", "merge", layered, layered / "tasks.jsonl", "--out", tmp_path / "merged")
    assert_refused(result, "tasks.jsonl, line 1", "'owner__repo-0'", "remove it from one")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_merging_one_file_is_refused(turnsmith, tmp_path, layered):
    refused = turnsmith("tasks", "merge", layered, "--out", tmp_path / "merged")
    assert_refused(refused, layered, "two task files or more", "give another PATH")
    assert not (tmp_path / "merged").exists()


def test_a_commit_mined_twice_is_refused_under_any_id(turnsmith, tmp_path):
    files = [
        write_rows(tmp_path / name / "tasks.jsonl", [make_mined_row(name, commit=commit * 40, repo=f"{name}/shop")])
        for name, commit in (("a", "c"), ("b", "c"), ("d", "e"))
    ]
    refused = turnsmith("tasks", "merge", *files[:2], "--out", tmp_path / "merged")
    assert_refused(refused, "'b'", tmp_path / "a", "id", "c" * 40)
    assert turnsmith("tasks", "merge", *files[1:], "--out", tmp_path / "merged").exit_code == 0


def test_contaminated_tasks_are_left_out_with_their_pairs(turnsmith, tmp_path):
    train = [
        make_rebench_row("same", repo="me/name"),
        make_rebench_row("alike", repo="me/other"),
        make_rebench_row("clean", repo="me/third", patch="", problem_statement="Nothing of that kind."),
    ]
    file = write_rows(tmp_path / "train.jsonl", train)
    evaluated = write_rows(tmp_path / "eval.jsonl", [make_rebench_row("e", repo="owner/name")])
    ask = ("tasks", "decontaminate", file, "--against", evaluated, "--out")
    result = turnsmith(*ask, tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    pairs = [
        (row["train_id"], row["by"], row["likeness"]) for row in read_json_lines(tmp_path / "out/contaminated.jsonl")
    ]
    assert pairs == [
        ("same", "repo", 1.0), ("same", "patch", 1.0), ("same", "issue", 1.0), ("alike", "patch", 1.0), ("alike", "issue", 1.0),
    ]  # fmt: skip
    report = json.loads(result.stdout)
    assert (report["num_rows"], report["num_left"]) == (3, 1)
    assert report["num_found"] == {"repo": 1, "patch": 2, "issue": 2} and report["num_too_short"] == {
        "patch": 1,
        "issue": 1,
    }
    assert [row["instance_id"] for row in read_json_lines(tmp_path / "out/tasks.jsonl")] == ["clean"]
    assert "2 of 3 tasks kept" in turnsmith(*ask, tmp_path / "by-repo", "--by", "repo").stdout
    assert_refused(turnsmith(*ask, tmp_path / "no", "--by", "names"), "--by names", "id, repo, patch, issue")
    assert_refused(turnsmith(*ask, tmp_path / "no", "--likeness", "patch=2"), "--likeness patch=2")
    assert_refused(turnsmith(*ask, tmp_path / "out"), "exists already")
    assert_refused(turnsmith(*ask[:2], evaluated, *ask[3:], tmp_path / "no"), "no task of", "1 dropped by id")
    assert not (tmp_path / "no").exists()
