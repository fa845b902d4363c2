"""Bad input: one sentence that names file, key or command and a remedy; exit code 2; no file changed."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from turnsmith.cli.errors import explain, is_disk_full, leaves
from turnsmith.errors import EngineError, TooManyFailures, UsageError
from turnsmith.runs.folder import RunFolder, claim


def assert_refused(result, *pieces):
    assert result.exit_code == 2, result.output
    [sentence] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert all(str(piece) in sentence for piece in pieces), sentence


def files_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("arguments", "pieces"),
    [
        (["--sed", "3"], ["small.toml with --sed", "'sed'", "did you mean 'seed'"]),
        (["--rft.batch_size", "many"], ["small.toml with --rft.batch_size", '"many"']),
        (["--seed"], ["--seed", "value"]),
        (["--eval.k", "3"], ["eval", "k 3", "num_runs 2"]),
        (["--model.path", "nowhere"], ["model", "/nowhere"]),
        (["--agent.prompts", "long"], ["/long", "agent.prompts", "bash, brief, paper"]),
        (["--eval_tasks.practice.path", "nowhere.jsonl"], ["task file", "/nowhere.jsonl"]),
    ],
)
def test_a_run_that_cannot_begin_leaves_no_folder(turnsmith, config_file, tmp_path, arguments, pieces):
    assert_refused(turnsmith("eval", config_file, *arguments, "--out", tmp_path / "run"), *pieces)
    assert not (tmp_path / "run").exists()


def test_missing_conversations_are_refused_before_the_run_begins(turnsmith, config_file, tmp_path):
    arguments = ["--rft.conversations", "nowhere", "--out", tmp_path / "run"]
    result = turnsmith("run", config_file, *arguments)
    assert_refused(result, "no conversations at", "/nowhere", "turnsmith tasks demonstrate")
    assert not (tmp_path / "run").exists() and "loading model" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "pieces"),
    [
        (["--sandbox", "dokcer"], ["sandbox.kind", "'dokcer'", "give local, podman, subprocess"]),
        (["--sandbox", "os:nothing"], ["os has no 'nothing'"]),
        (
            ["--sandbox", "os:getcwd"],
            ["os:getcwd lacks takes_images, takes_environments, start, close", "SandboxProvider"],
        ),
        (["--sandbox.image", "debian"], ["sandbox.image", "--sandbox podman"]),
        (
            ["--sandbox", "podman", "--eval_tasks.made.practice_tasks", "1", "--eval_tasks.made.split", "heldout"],
            ["sandbox.image is missing"],
        ),
    ],
)
def test_a_sandbox_that_cannot_be_opened_is_refused_before_the_run_begins(
    turnsmith, config_file, tmp_path, arguments, pieces
):
    assert_refused(turnsmith("eval", config_file, *arguments, "--out", tmp_path / "run"), *pieces)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["run", "rft", "rl"])
def test_training_without_isolation_is_refused(turnsmith, config_file, tmp_path, command):
    result = turnsmith(command, config_file, "--sandbox.kind", "subprocess", "--out", tmp_path / "run")
    assert_refused(result, "isolation none", "--sandbox.min_isolation none")
    assert not (tmp_path / "run").exists()


def test_an_override_before_the_configuration_is_refused(turnsmith, config_file):
    assert_refused(turnsmith("run", "--seed", "3", config_file), "CONFIG")


def test_a_configuration_without_work_is_refused(turnsmith, tmp_path):
    path = tmp_path / "nothing.toml"
    path.write_text("train_tasks.practice_tasks = 3\n")
    for command, piece in {
        "run": "[rft] or [[stages]] or [eval_tasks.NAME]",
        "rft": "[rft]",
        "rl": "[[stages]]",
        "eval": "[eval_tasks",
    }.items():
        assert_refused(turnsmith(command, path), path, piece)


FAULTS = {
    "model.path": ("nowhere", "nowhere: config.json is missing"),
    "agent.prompts": ("long", "'long'"),
    "engine.kind": ("no_such_package:engine", "module no_such_package"),
    "trainer.kind": ("os:trainer", "'trainer'"),
    "tracking": ('["no_such_tracker:Tracker"]', "module no_such_tracker"),
    "stages.0.curriculum_from": ("nowhere:one", "curriculum_from 'nowhere:one'"),
    "train_tasks.path": ("nowhere.jsonl", "nowhere.jsonl"),
    "eval_tasks.practice.subset": ("nowhere.txt", "nowhere.txt (No such file or directory): give verified-50"),
    "eval_tasks.more.package": ("no-such", "'no-such'"),
}


def run_without_torch(folder, *arguments):
    """Run a command in a new process that reports imports of torch and transformers."""
    program = (
        "import sys; from turnsmith.__main__ import main\n"
        f"sys.argv = {['turnsmith', *map(str, arguments)]!r}\n"
        "try: main()\n"
        "finally: print([name for name in ('torch', 'transformers', 'scipy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert result.stdout.endswith("[]\n"), result.stdout
    return result


def test_missing_prerequisites_are_found_without_torch(config_file, tmp_path):
    options = [f"--{key}={value}" for key, (value, _) in FAULTS.items()]
    result = run_without_torch(tmp_path, "rl", config_file, "--dry-run", "--stages.0.curriculum=true", *options)
    assert [sentence for _, sentence in FAULTS.values() if sentence not in result.stderr] == []


def test_a_run_with_missing_prerequisites_is_refused_without_torch(config_file, tmp_path):
    result = run_without_torch(tmp_path, "rl", config_file, "--train_tasks.path=nowhere.jsonl", "--out", "run")
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("error: ") and f"{tmp_path}/nowhere.jsonl" in result.stderr
    assert not (tmp_path / "run").exists()


def test_training_tasks_cannot_be_evaluated(turnsmith, config_file, task_folder, tmp_path):
    result = turnsmith("rl", config_file, f"--eval_tasks.practice.path={task_folder}", "--out", tmp_path / "run")
    assert_refused(result, "eval_tasks.practice shares 2 tasks with train_tasks")
    assert not (tmp_path / "run").exists()


def test_a_run_whose_model_has_moved_cannot_be_resumed(turnsmith, config_file, tmp_path):
    config = json.loads(turnsmith("eval", config_file, "--dry-run").stdout)
    config["model"]["path"] = "/nowhere"
    claim(RunFolder(tmp_path / "run"), config)
    assert_refused(turnsmith("resume", tmp_path / "run"), "no model at /nowhere")


def test_a_model_directory_without_weights_is_refused(turnsmith, config_file, model_directory, tmp_path):
    empty = tmp_path / "empty"
    shutil.copytree(model_directory, empty)
    (empty / "model.safetensors").unlink()
    assert_refused(turnsmith("eval", config_file, f"--model.path={empty}"), empty, "weights")


def test_a_malformed_line_of_a_task_file_is_named_by_its_number(turnsmith, config_file, task_folder, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(task_folder, broken)
    (broken / "tasks.jsonl").write_text((broken / "tasks.jsonl").read_text().split("\n")[0] + '\n{"instance_id": 3\n')
    assert_refused(turnsmith("tasks", "stats", broken), broken / "tasks.jsonl", "line 2")
    out = tmp_path / "run"
    assert_refused(turnsmith("eval", config_file, f"--eval_tasks.practice.path={broken}", "--out", out), "line 2")


@pytest.mark.parametrize("arguments", [("tasks/set", "--limit", 1), ("--help",)])
def test_a_removed_command_names_its_replacement(turnsmith, arguments):
    assert_refused(turnsmith("tasks", "check", *arguments), "tasks check", "tasks qualify", "--repeats 2")


def test_tasks_are_not_made_in_a_folder_with_other_tasks(turnsmith, task_folder):
    before = files_below(task_folder)
    assert_refused(turnsmith("tasks", "make", "--practice", "1", "--out", task_folder), task_folder, "exists already")
    assert files_below(task_folder) == before


def test_tasks_are_made_from_one_source(turnsmith, tmp_path):
    for sources in ([], ["--practice", "1", "--package", "toolz==1.0.0"]):
        assert_refused(turnsmith("tasks", "make", *sources, "--out", tmp_path / "tasks"), "or --practice N")
    assert_refused(turnsmith("tasks", "make", "--package", "no such", "--out", tmp_path / "tasks"), "name==version")
    assert not (tmp_path / "tasks").exists()


def test_a_model_without_a_chat_template_is_refused(turnsmith, config_file, model_directory, tmp_path):
    mute = tmp_path / "mute"
    shutil.copytree(model_directory, mute)
    (mute / "chat_template.jinja").unlink()
    out = tmp_path / "run"
    assert_refused(turnsmith("eval", config_file, f"--model.path={mute}", "--out", out), mute, "no chat template")
    assert not out.exists()


def test_a_missing_chat_template_is_named(turnsmith, config_file, tmp_path):
    options = ["--model.chat.template", tmp_path / "none.jinja", "--out", tmp_path / "run"]
    assert_refused(turnsmith("eval", config_file, *options), "none.jinja (No such file or directory)", "keep-turns")


@pytest.mark.parametrize("key", ["agent", "rft", "stages.0"])
def test_a_context_shorter_than_the_first_prompt_is_refused_before_any_episode(turnsmith, config_file, tmp_path, key):
    result = turnsmith("run", config_file, f"--{key}.max_context", "100", "--out", tmp_path / "run")
    assert_refused(result, "the first prompt has", f"{key}.max_context is 100", f"raise {key}.max_context")
    assert not list(tmp_path.glob("run/**/trajectories.jsonl"))


def test_a_run_folder_with_another_configuration_is_refused(turnsmith, config_file, run_folder):
    before = files_below(run_folder.path)
    result = turnsmith("eval", config_file, "--out", run_folder.path)
    assert_refused(result, run_folder.path, "model.path differs", "turnsmith resume", "--out")
    assert files_below(run_folder.path) == before


def test_a_folder_without_a_run_is_refused(turnsmith, config_file, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("precious")
    assert_refused(turnsmith("eval", config_file, "--out", tmp_path / "thesis"), tmp_path / "thesis")
    for command in ("resume", "show", "results"):
        assert_refused(turnsmith(command, tmp_path / "thesis"), tmp_path / "thesis", "run folder")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_unusable_paths_are_usage_errors(number):
    error = OSError(number, os.strerror(number), "runs/hers/run.log")
    message, exit_code = explain(error)
    assert "runs/hers/run.log" in message and os.strerror(number) in message and exit_code == 2


def test_an_impossible_file_name_is_a_usage_error(turnsmith, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a" * 300
    for arguments in (
        ["stats", name],
        ["make", "--practice", "1", "--out", name],
        ["make", "--package", name, "--out", "tasks"],
    ):
        assert_refused(turnsmith("tasks", *arguments), f"{name[:200]}…", "File name too long")
    assert not list(tmp_path.iterdir())


def test_a_folder_in_place_of_the_records_is_a_usage_error(turnsmith, task_folder, tmp_path):
    shutil.copytree(task_folder, tmp_path / "tasks", symlinks=True)
    (records := tmp_path / "tasks/qualification.jsonl").mkdir()
    assert_refused(turnsmith("tasks", "qualify", tmp_path / "tasks"), records, "Is a directory")


def test_paths_through_a_file_are_usage_errors(turnsmith, config_file, tmp_path):
    (tmp_path / "file").write_bytes(b"\xff precious")
    inside = tmp_path / "file" / "inside"
    for command in ("resume", "show", "results"):
        assert_refused(turnsmith(command, tmp_path / "file"), "cannot read", tmp_path / "file")
    assert_refused(turnsmith("run", inside), "cannot read", inside)
    assert_refused(turnsmith("eval", config_file, "--out", inside), "cannot make", inside)
    assert_refused(turnsmith("tasks", "make", "--practice", "1", "--out", inside), "cannot make", inside)
    assert (tmp_path / "file").read_bytes() == b"\xff precious"


def test_a_run_whose_configuration_is_not_text_is_a_usage_error(turnsmith, run_folder):
    run_folder.config.write_bytes(b"\xff")
    assert_refused(turnsmith("resume", run_folder.path), run_folder.config, "put back a copy")


def test_a_run_of_a_forked_version_is_shown_but_not_resumed(turnsmith, run_folder):
    config = json.loads(run_folder.config.read_text())
    config["agent"]["wizards"] = 3
    run_folder.config.write_text(json.dumps(config))
    assert turnsmith("show", run_folder.path).exit_code == 0
    assert turnsmith("results", run_folder.path, "--json").exit_code == 0
    assert_refused(turnsmith("resume", run_folder.path), run_folder.config, "unknown key 'agent.wizards'")


def test_a_missing_trajectory_is_a_usage_error(turnsmith, run_folder):
    result = turnsmith("show", run_folder.path, "--trajectory", "zzz")
    assert_refused(result, str(run_folder.path), "'zzz'", "`turnsmith show ")
    _, _, *remedy = result.stderr.partition("`")[2].partition("`")[0].split()
    listed = turnsmith("show", *remedy)
    assert listed.exit_code == 0 and "2 trajectories" in listed.stdout


def test_a_run_without_trajectories_names_none(turnsmith, run_folder):
    shutil.rmtree(run_folder.path / "evals")
    assert_refused(turnsmith("show", run_folder.path, "--trajectory", "zzz"), "'zzz'", "first episode")


def test_the_log_of_a_dead_vllm_server_stays_in_the_run_folder(turnsmith, config_file, tmp_path):
    python, log = tmp_path / "python", tmp_path / "run" / "servers" / "vllm-0.log"
    python.write_text('#!/bin/sh\n[ "$2" = -c ] && echo 0.32.0 || { echo "ValueError: no room"; exit 1; }\n')
    python.chmod(0o755)
    given = ["--engine.kind", "vllm", "--engine.vllm.python", python, "--out", tmp_path / "run"]
    result = turnsmith("eval", config_file, *given)
    assert_refused(result, "ValueError: no room", log)
    assert log.read_text() == "ValueError: no room\n"


def test_a_full_disk_is_a_usage_error(turnsmith, config_file, tmp_path):
    """`/dev/full` answers every write like a full disk; the run continues once there is space."""
    folder = RunFolder(tmp_path / "run")
    claim(folder, json.loads(turnsmith("eval", config_file, "--dry-run").stdout))
    folder.log.symlink_to("/dev/full")
    result = turnsmith("eval", config_file, "--out", folder.path)
    assert_refused(result, "full", f"turnsmith resume {folder.path}")
    folder.log.unlink()
    assert turnsmith("resume", folder.path).exit_code == 0


def test_a_full_disk_is_recognised_among_many_rollouts():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert is_disk_full(ExceptionGroup("a", [UsageError("other"), ExceptionGroup("b", [full])]))
    assert not is_disk_full(ExceptionGroup("a", [OSError(errno.EACCES, "denied")]))
    assert explain(full)[1] == 2


def test_an_error_of_many_rollouts_is_printed_once():
    group = ExceptionGroup("a", [UsageError("first"), ExceptionGroup("b", [UsageError("second")])])
    assert [str(leaf) for leaf in leaves(group)] == ["first", "second"]
    assert explain(group) == ("first", 2)


def test_errors_of_the_system_have_exit_code_1():
    assert explain(TooManyFailures("too many")) == ("too many", 1)
    assert explain(EngineError("no")) == ("no", 1)


def test_a_missing_training_package_names_its_extra():
    sentence, code = explain(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert "turnsmith[train]" in sentence and code == 2


def test_unexpected_errors_keep_their_traceback():
    for error in (OSError(errno.EIO, "broken"), ExceptionGroup("a", [UsageError("first"), ZeroDivisionError()])):
        with pytest.raises(type(error)):
            explain(error)
