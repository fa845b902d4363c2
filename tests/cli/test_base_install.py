"""Installation without extras: an environment with links to the required packages only."""

import json
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from conftest import make_result
from turnsmith.config.extras import EXTRAS
from turnsmith.runs.folder import write_json
from turnsmith.sandboxes.runtime import required_distributions

MAX_BYTES = 150e6
CONFIGS = Path(__file__).parents[2] / "configs"
SHARED = ("..", "__pycache__")
"""Folders that several distributions share."""


@pytest.fixture(scope="module")
def base_python(tmp_path_factory):
    """Return the interpreter of an environment with the required packages only."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for distribution in required_distributions("turnsmith"):
        for name in {file.parts[0] for file in distribution.files} - {*SHARED}:
            (packages / name).symlink_to(distribution.locate_file(name))
    return folder / "bin" / "python"


@pytest.fixture
def base(base_python, tmp_path):
    """Return a function that runs a command in the base installation, in an empty folder."""
    (tmp_path / "here").mkdir(exist_ok=True)

    def run(*arguments):
        command = [base_python, "-I", "-m", "turnsmith", *arguments]
        return subprocess.run(command, cwd=tmp_path / "here", capture_output=True, text=True, check=False)

    return run


def test_the_base_packages_weigh_less_than_150_mb():
    sizes = {
        distribution.name: sum(distribution.locate_file(file).stat().st_size for file in distribution.files)
        for distribution in required_distributions("turnsmith")
    }
    assert 50e6 < sum(sizes.values()) < MAX_BYTES, sorted(sizes.items(), key=lambda item: -item[1])[:5]


def test_no_package_of_an_extra_is_in_the_base(base_python):
    names = [name for extra in EXTRAS.values() for name in extra.packages]
    code = f"import importlib.util; print([name for name in {names} if importlib.util.find_spec(name)])"
    assert subprocess.check_output([base_python, "-I", "-c", code], text=True) == "[]\n"


def test_the_base_reads_and_compares_run_folders(base, run_folder):
    rates = {"base": 0.0, "stage2": 1.0}
    for stage, rate in rates.items():
        result = make_result(stage, "practice", rate) | {"per_task": {f"task-{number}": rate for number in range(12)}}
        write_json(run_folder.result(stage, "practice"), result)
    for command in ("results", "show"):
        result = base(command, run_folder.path)
        assert (result.returncode, "58.0" in result.stdout or "100.0" in result.stdout) == (0, True), result.stderr
    result = base("compare", f"{run_folder.path}:base/practice", f"{run_folder.path}:stage2/practice", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)[0]["p_value"] == 2 / 2**12


@pytest.mark.slow
def test_the_base_checks_tasks_and_grades_predictions(base, task_folder, tmp_path):
    tasks = [json.loads(line) for line in (task_folder / "tasks.jsonl").read_text().splitlines()]
    patches = [tasks[0]["patch"], ""]
    rows = [
        {"instance_id": task["instance_id"], "model_name_or_path": "someone", "model_patch": patch}
        for task, patch in zip(tasks, patches, strict=True)
    ]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = base("grade", tmp_path / "predictions.jsonl", "--tasks", task_folder, "--out", tmp_path / "graded")
    assert result.returncode == 0, result.stderr
    report = json.loads(next((tmp_path / "graded").glob("someone.*.json")).read_text())
    assert (report["resolved_ids"], report["empty_patch_ids"]) == ([tasks[0]["instance_id"]], [tasks[1]["instance_id"]])


@pytest.mark.slow
def test_doctor_lists_every_extra_with_its_purpose(base):
    found = {row["name"]: row for row in json.loads(base("doctor", "--json").stdout)}
    for name, extra in EXTRAS.items():
        row = found[f"extra {name}"]
        assert (row["ok"], row["remedy"]) == (False, f"pip install 'turnsmith[{name}]'")
        assert row["detail"].startswith(extra.purpose)
    named = [name for name, row in found.items() if "torch" in row["detail"].replace("torchao", "")]
    assert named == ["extra train"]


LACKING = {
    "run laptop.toml": "train",
    "rft laptop.toml --out new": "train",
    "rl laptop.toml --out new": "train",
    "eval laptop.toml --out new": "train",
    "eval served-model.toml --out new": "endpoint",
    "resume run": "train",
    "export run --out new": "train",
    "mismatch run": "train",
    "doctor --model.path run": "train",
    "solve repository --issue issue.md --model.path tiny --out new": "train",
    "solve repository --issue issue.md --config served-model.toml --out new": "endpoint",
    "tasks mine repository --out new": "mine",
    "tasks rebuild tasks --history a/b=repository --out new": "mine",
    "tasks decontaminate tasks --against tasks --out new": "data",
    "tasks import swe-bench --from rows.parquet --out new": "data",
    "tasks import swe-bench --from rows.arrow --out new": "data",
    "tasks import swe-bench --from hub:owner/name --out new": "hub",
}
"""Command in the folder of `workplace` → extra that it needs."""


@pytest.fixture
def workplace(tmp_path, run_folder, task_folder):
    """Write all files that the commands need."""
    here = tmp_path / "here"
    here.mkdir(exist_ok=True)
    for name in ("laptop.toml", "served-model.toml"):
        shutil.copy(CONFIGS / name, here)
    (here / "issue.md").write_text("The total is wrong by one.\n")
    for name in ("rows.parquet", "rows.arrow"):
        (here / name).write_bytes(b"some bytes\n")
    subprocess.run(["git", "init", "--quiet", here / "repository"], check=True)
    write_json(run_folder.iteration("stage2", 4).checkpoint / "config.json", {})
    write_json(run_folder.results, [])
    run_folder.path.rename(here / "run")
    (here / "tasks").symlink_to(task_folder)
    return here


def list_files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize(("command", "extra"), LACKING.items())
def test_a_missing_package_names_its_extra_and_nothing_is_written(base, workplace, command, extra):
    before = list_files(workplace)
    result = base(*command.split())
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert f"`pip install 'turnsmith[{extra}]'`" in result.stderr
    assert result.stdout == ""
    assert list_files(workplace) == before
