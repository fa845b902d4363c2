"""`tasks import` on the command line: every kind of source, what is refused, what is told of another set."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer

import pyarrow as pa
import pytest
from pyarrow import parquet

from support.data_sets.golden_rows import (
    HARBOR,
    MULTI_SWE,
    SWE_BENCH,
    SWE_BENCH_PRO,
    SWE_BENCH_V5,
    SWE_GYM,
    SWE_REBENCH,
)
from support.data_sets.small_hub import SmallHub
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.sets.recognition import find_set


def number(row, many):
    """So many rows like one, each with an id of its own."""
    return [row | {"instance_id": f"{row['instance_id']}{number}"} for number in range(many)]


def write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def rows(tmp_path):
    """Five rows, of which two are no tasks."""
    good = number(SWE_REBENCH, 3)
    no_image = SWE_REBENCH | {"instance_id": "x-1", "image_name": None, "docker_image": ""}
    no_test = SWE_REBENCH | {"instance_id": "x-2", "FAIL_TO_PASS": []}
    return write_lines(tmp_path / "rows.jsonl", [good[0], no_image, good[1], no_test, good[2]])


def test_an_import_of_refused_rows_alone_fails(turnsmith, tmp_path):
    made_here = number(SWE_BENCH, 1)[0] | {"layers": ["layers/a"]}
    rows = write_lines(tmp_path / "rows.jsonl", [made_here])
    result = turnsmith("tasks", "import", "swe-bench", "--from", rows, "--out", tmp_path / "out")
    assert result.exit_code == 2 and "imported 0 · refused 1 (1 made by Turnsmith, has no image)" in result.stdout
    assert "refused.jsonl" in result.stderr


def test_refused_rows_are_written_with_a_reason(turnsmith, rows, tmp_path):
    result = turnsmith("tasks", "import", "swe-rebench", "--from", rows, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"imported 3 · refused 2 (1 no image, 1 empty FAIL_TO_PASS) in {tmp_path / 'out'}\n"
    assert len(load_tasks(tmp_path / "out")) == 3
    refused = [json.loads(line) for line in (tmp_path / "out" / "refused.jsonl").read_text().splitlines()]
    assert [(each["place"], each["instance_id"], each["reason"]) for each in refused] == [
        ("rows.jsonl, row 2", "x-1", "no image"),
        ("rows.jsonl, row 4", "x-2", "empty FAIL_TO_PASS"),
    ]


@pytest.mark.parametrize("ending", ["", "\n", "\n\n \n"])
def test_progress_of_an_import_ends_at_its_total(turnsmith, rows, tmp_path, ending):
    rows.write_text(rows.read_text().rstrip() + ending)
    result = turnsmith("tasks", "import", "swe-rebench", "--from", rows, "--out", tmp_path / "out")
    assert "importing swe-rebench: 5 of 5" in result.stderr


def test_a_second_import_continues_the_first(turnsmith, rows, tmp_path):
    out = tmp_path / "out"
    turnsmith("tasks", "import", "swe-rebench", "--from", rows, "--out", out, "--limit", 2)
    before = (out / "tasks.jsonl").read_bytes()
    assert len(before.splitlines()) == 1
    with (out / "tasks.jsonl").open("ab") as torn:
        torn.write(b'{"instance_id":"shop-tools__shop-171","re')
    result = turnsmith("tasks", "import", "swe-rebench", "--from", rows, "--out", out, "--json")
    assert json.loads(result.stdout) == {
        "folder": str(out),
        "imported": 3,
        "refused": {"no image": 1, "empty FAIL_TO_PASS": 1},
        "set_aside": {},
        "mended": [],
    }
    assert (out / "tasks.jsonl").read_bytes().startswith(before)
    assert len((out / "refused.jsonl").read_text().splitlines()) == 2
    assert len(load_tasks(out)) == 3


def test_one_task_by_its_id(turnsmith, rows, tmp_path):
    arguments = ["tasks", "import", "swe-rebench", "--from", rows, "--out", tmp_path / "out", "--task"]
    assert turnsmith(*arguments, "shop-tools__shop-171").exit_code == 0
    assert [task.instance_id for task in load_tasks(tmp_path / "out")] == ["shop-tools__shop-171"]
    assert "nowhere" in turnsmith(*arguments, "nowhere").stderr


def test_parquet_in_splits_is_read_one_split_at_a_time(turnsmith, tmp_path):
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    for split, many in (("dev", 2), ("test", 3)):
        table = pa.Table.from_pylist(number(SWE_BENCH, many))
        parquet.write_table(table, folder / f"{split}-00000-of-00001.parquet")
    arguments = ["tasks", "import", "swe-bench", "--from", tmp_path / "hub", "--out", tmp_path / "out"]
    assert re.search(r"dev, test.*--split", turnsmith(*arguments).stderr)
    assert turnsmith(*arguments, "--split", "test").stdout.startswith("imported 3 · refused 0")
    assert "split 'train'" in turnsmith(*arguments, "--split", "train").stderr


def test_a_datasets_folder_is_read(turnsmith, tmp_path):
    folder = tmp_path / "saved" / "test"
    folder.mkdir(parents=True)
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["test"]}')
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    (folder / "dataset_info.json").write_text("{}")
    table = pa.Table.from_pylist(number(SWE_GYM, 4))
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as out,
    ):
        out.write_table(table)
    result = turnsmith("tasks", "import", "swe-gym", "--from", tmp_path / "saved", "--out", tmp_path / "out")
    assert result.stdout.startswith("imported 4 · refused 0"), result.output


def test_rows_of_another_set_are_recognised_by_their_columns(turnsmith, tmp_path):
    file = tmp_path / "rows.parquet"
    parquet.write_table(pa.Table.from_pylist([SWE_REBENCH]), file)
    result = turnsmith("tasks", "import", "swe-gym", "--from", file, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert f"`turnsmith tasks import swe-rebench --from {file}`" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("rows.parquet", b"PAR1 and no more", "Parquet"),
        ("rows.arrow", b"ARROW? no", "Arrow"),
        ("rows.json", b"{", "JSON"),
        ("rows.json", b"{}", "list of rows"),
        ("rows.jsonl", b"", "swe-bench"),
        ("rows.jsonl", b'{"a": 1}\n', "needs the columns base_commit"),
    ],
)
def test_files_without_rows_are_usage_errors(turnsmith, tmp_path, name, content, complaint):
    (tmp_path / name).write_bytes(content)
    result = turnsmith("tasks", "import", "swe-bench", "--from", tmp_path / name, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert complaint in result.stderr and result.stderr.count("\n") == 1


def test_an_unknown_set_lists_the_known_ones(turnsmith, tmp_path):
    result = turnsmith("tasks", "import", "swe", "--from", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2 and re.search(r"set 'swe': .*harbor, multi-swe, ", result.stderr)


def test_raw_rows_given_to_another_command_name_the_import(turnsmith, tmp_path):
    lines = write_lines(tmp_path / "verified.jsonl", [SWE_BENCH])
    told = turnsmith("tasks", "stats", lines).stderr
    assert f"`turnsmith tasks import swe-bench --from {lines}" in told
    parquet.write_table(pa.Table.from_pylist([SWE_REBENCH]), tmp_path / "rows.parquet")
    assert "`turnsmith tasks import swe-rebench" in turnsmith("tasks", "stats", tmp_path / "rows.parquet").stderr


def test_rows_are_exported_as_they_were_imported(turnsmith, tmp_path):
    file = write_lines(tmp_path / "rows.jsonl", number(SWE_REBENCH, 3))
    turnsmith("tasks", "import", "swe-rebench", "--from", file, "--out", tmp_path / "in")
    result = turnsmith("tasks", "export", tmp_path / "in", "--as", "swe-rebench", "--out", tmp_path / "out")
    assert result.stdout == f"3 tasks in {tmp_path / 'out'}\n", result.output
    exported = (tmp_path / "out" / "rows.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in exported] == number(SWE_REBENCH, 3)
    again = turnsmith("tasks", "export", tmp_path / "in", "--as", "swe-rebench", "--out", tmp_path / "out")
    assert again.exit_code == 2 and str(tmp_path / "out") in again.stderr
    other = turnsmith("tasks", "export", tmp_path / "in", "--as", "swe-gym", "--out", tmp_path / "gym")
    assert other.exit_code == 2 and "swe-gym" in other.stderr


@pytest.mark.parametrize(
    ("name", "row"), [("harbor", HARBOR), ("swe-bench-v5", SWE_BENCH_V5 | {"dockerfile": "FROM a\n"})]
)
def test_folders_are_exported_as_they_were_imported(turnsmith, tmp_path, name, row):
    find_set(name).folders.write(row, tmp_path / "given")
    before = read_tree(tmp_path / "given")
    imported = turnsmith("tasks", "import", name, "--from", tmp_path / "given", "--out", tmp_path / "in")
    assert imported.stdout.startswith("imported 1 · refused 0"), imported.output
    exported = turnsmith("tasks", "export", tmp_path / "in", "--as", name, "--out", tmp_path / "out")
    assert exported.exit_code == 0, exported.output
    assert read_tree(tmp_path / "out") == before
    told = turnsmith("tasks", "import", "swe-gym", "--from", tmp_path / "given", "--out", tmp_path / "gym").stderr
    assert name in told


def read_tree(folder):
    """Path → content of every file."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_rows_of_swe_bench_pro_find_their_scripts(turnsmith, tmp_path):
    bare = {name: value for name, value in SWE_BENCH_PRO.items() if name not in ("run_script", "parser")}
    file = write_lines(tmp_path / "pro.jsonl", [bare, bare | {"instance_id": "instance_shop-x"}])
    scripts = tmp_path / "run_scripts" / bare["instance_id"]
    scripts.mkdir(parents=True)
    (scripts / "run_script.sh").write_text("pytest $1\n")
    (scripts / "parser.py").write_text("import sys\n")
    result = turnsmith("tasks", "import", "swe-bench-pro", "--from", file, "--out", tmp_path / "out")
    assert result.stdout.startswith("imported 1 · refused 1 (1 no run script)"), result.output


def test_a_refused_row_is_tried_again_and_listed_once(turnsmith, tmp_path):
    bare = {name: value for name, value in SWE_BENCH_PRO.items() if name not in ("run_script", "parser")}
    file = write_lines(tmp_path / "pro.jsonl", number(bare, 2))
    arguments = ["tasks", "import", "swe-bench-pro", "--from", file, "--out", tmp_path / "out"]
    scripts = tmp_path / "run_scripts" / f"{bare['instance_id']}0"
    for _ in range(2):
        assert turnsmith(*arguments).stdout.startswith("imported 0 · refused 2 (2 no run script)")
        assert len((tmp_path / "out/refused.jsonl").read_text().splitlines()) == 2
    scripts.mkdir(parents=True)
    for name in ("run_script.sh", "parser.py"):
        (scripts / name).write_text("true\n")
    for there in ("", " (1 were there)"):
        assert turnsmith(*arguments).stdout.startswith(f"imported 1{there} · refused 1 (1 no run script)")
        [left] = (tmp_path / "out/refused.jsonl").read_text().splitlines()
        assert json.loads(left)["place"] == "pro.jsonl, row 2"


def test_one_task_is_shown(turnsmith, task_folder):
    task = load_tasks(task_folder)[1]
    shown = turnsmith("tasks", "show", task_folder, "--task", task.instance_id).stdout
    assert shown.startswith(task.instance_id) and "── gold patch\ndiff --git" in shown
    assert all(test in shown for test in task.FAIL_TO_PASS)
    assert re.search(r"^is_vague +(no|yes: .+)$", shown, re.MULTILINE)
    as_json = json.loads(turnsmith("tasks", "show", task_folder, "--task", task.instance_id, "--json").stdout)
    assert as_json["instance_id"] == task.instance_id
    assert "'nobody'" in turnsmith("tasks", "show", task_folder, "--task", "nobody").stderr


@pytest.mark.slow
def test_the_hub_needs_its_extra(tmp_path):
    code = "import sys; sys.modules['huggingface_hub'] = None; from turnsmith.cli import main; main()"
    arguments = ["tasks", "import", "swe-gym", "--from", "hub:a/b", "--out", tmp_path / "out"]
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert result.returncode == 2
    assert "`pip install 'turnsmith[hub]'`" in result.stderr


def test_tasks_without_a_log_parser_are_counted(turnsmith, tmp_path):
    java = MULTI_SWE | {"fix_patch": MULTI_SWE["fix_patch"].replace("cart.go", "cart.java")}
    file = write_lines(tmp_path / "rows.jsonl", number(java, 2))
    told = turnsmith("tasks", "import", "multi-swe", "--from", file, "--out", tmp_path / "out").stdout
    assert re.search(r"2 of 2 tasks cannot be graded.* multi-swe-java", told)
    go = write_lines(tmp_path / "go.jsonl", [MULTI_SWE])
    assert (
        "cannot be graded"
        not in turnsmith("tasks", "import", "multi-swe", "--from", go, "--out", tmp_path / "go").stdout
    )


def test_a_row_that_cannot_be_graded_is_imported_and_reported(turnsmith, tmp_path):
    odd = SWE_BENCH | {"instance_id": "shop-tools__shop-18", "PASS_TO_PASS": '["[100%]"]'}
    file = write_lines(tmp_path / "rows.jsonl", [SWE_BENCH, odd])
    arguments = ["tasks", "import", "swe-bench", "--from", file, "--out"]
    told = turnsmith(*arguments, tmp_path / "out").stdout
    assert told.startswith("imported 2 · refused 0") and "1 of 2 tasks cannot be graded" in told
    as_json = json.loads(turnsmith(*arguments, tmp_path / "again", "--json").stdout)
    assert [*as_json["set_aside"]] == ["shop-tools__shop-18"]
    assert "expects '[100%]'" in as_json["set_aside"]["shop-tools__shop-18"]


def test_lone_surrogates_are_replaced_on_import_and_reported_once(turnsmith, tmp_path):
    row = SWE_BENCH | {"problem_statement": "It prints \ud83d\ude00, then \ud800.", "hints_text": "\udc00"}
    file = write_lines(tmp_path / "rows.jsonl", [row])
    told = turnsmith("tasks", "import", "swe-bench", "--from", file, "--out", tmp_path / "out").stdout
    assert len(re.findall(r"surrogates of 1 tasks .*shop-tools__shop-17", told)) == 1
    [task] = load_tasks(tmp_path / "out")
    assert task.problem_statement == "It prints \N{GRINNING FACE}, then \N{REPLACEMENT CHARACTER}."
    assert task.model_extra["hints_text"] == "\N{REPLACEMENT CHARACTER}"
    hand = write_lines(tmp_path / "hand.jsonl", [task.model_dump() | {"problem_statement": "\ud800"}])
    assert turnsmith("tasks", "show", hand).exit_code == 0


@pytest.mark.slow
def test_a_data_set_of_the_hub_is_imported_by_name(tmp_path):
    pytest.importorskip("huggingface_hub")
    table = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(number(SWE_GYM, 3)), table)
    SmallHub.files = {"README.md": b"rows", "data/train-00000-of-00001.parquet": table.getvalue().to_pybytes()}
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-m", "turnsmith", "tasks", "import", "swe-gym", "--from", "hub:shop/rows"]
        result = subprocess.run(
            [*command, "--out", tmp_path / "out"], env=os.environ | place, capture_output=True, text=True, timeout=120
        )
        server.shutdown()
    assert result.stdout.startswith("imported 3 · refused 0"), result.stderr
    assert not list((tmp_path / "cache").rglob("README.md"))
