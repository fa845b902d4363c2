"""A machine without git or torch: every command that needs it names it in one sentence, and begins nothing."""

import json
import sys

import pytest

COMMANDS = {
    "run": "run {config} --out {out}",
    "rft": "rft {config} --out {out}",
    "rl": "rl {config} --out {out}",
    "eval": "eval {config} --out {out}",
    "solve": "solve {folder} --issue issue.txt --model.path {model} --out {out}",
    "grade": "grade {predictions} --tasks {tasks} --out {out}",
    "mine": "tasks mine {folder} --out {out}",
    "rebuild": "tasks rebuild {tasks} --history a/b={folder} --out {out}",
    "make": "tasks make --practice 1 --out {out}",
    "packages": "tasks make --package toolz==1.0.0 --out {out}",
    "qualify": "tasks qualify {tasks}",
}


@pytest.fixture
def places(tmp_path, config_file, model_directory, task_folder, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "issue.txt").write_text("The sum is wrong.")
    name = json.loads((task_folder / "tasks.jsonl").read_text().splitlines()[0])["instance_id"]
    (tmp_path / "preds.json").write_text(
        json.dumps([{"instance_id": name, "model_name_or_path": "m", "model_patch": "x"}])
    )
    monkeypatch.chdir(tmp_path)
    return {
        "config": config_file,
        "model": model_directory,
        "tasks": task_folder,
        "folder": tmp_path / "folder",
        "predictions": tmp_path / "preds.json",
        "out": tmp_path / "out",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_git_is_a_usage_error_and_nothing_is_written(turnsmith, places, monkeypatch, command):
    monkeypatch.setenv("PATH", str(places["folder"]))
    result = turnsmith(*COMMANDS[command].format(**places).split())
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert "git" in result.stderr and "install" in result.stderr
    assert not places["out"].exists()


@pytest.mark.parametrize("package", ["torch", "transformers", "matplotlib"])
@pytest.mark.parametrize("command", ["run", "rft", "rl"])
def test_a_missing_extra_leaves_no_run_folder(turnsmith, places, monkeypatch, command, package):
    monkeypatch.setitem(sys.modules, package, None)
    result = turnsmith(*COMMANDS[command].format(**places).split())
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert package in result.stderr and "turnsmith[train]" in result.stderr
    assert not places["out"].exists()
