import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import make_trajectory
from turnsmith import __version__
from turnsmith.__main__ import main
from turnsmith.config import RunConfig
from turnsmith.config.files import load
from turnsmith.recipes.paths import make_paths_absolute
from turnsmith.runs.folder import locked, read_json, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.tracking.feed import flatten
from turnsmith.types import Outcome

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.toml"))
COMMANDS = [
    "run",
    "rft",
    "rl",
    "eval",
    "resume",
    "show",
    "results",
    "doctor",
    "tasks",
    "tasks make",
    "tasks qualify",
    "tasks stats",
]


def test_help_imports_no_slow_package():
    command = [sys.executable, "-X", "importtime", "-m", "turnsmith", "--help"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stderr.splitlines()
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "typer" in imported
    assert not imported & {"torch", "transformers", "numba", "scipy", "pyarrow", "matplotlib", "plotly", "libcst"}


def test_an_interrupt_during_imports_leaves_no_traceback(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("turnsmith.cli.main", interrupt)
    with pytest.raises(SystemExit, match="130"):
        main()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(turnsmith, command):
    result = turnsmith(*command.split(), "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


def test_the_version_is_printed(turnsmith):
    assert turnsmith("--version").stdout == f"turnsmith {__version__}\n"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_configuration_passes_a_dry_run(turnsmith, path):
    result = turnsmith("run", path, "--dry-run", "--seed", "11")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == load(path, ["--seed=11"], RunConfig).model_dump(mode="json")
    assert "valid" in result.stderr
    assert "valid" in result.stderr.splitlines()[-1]


def test_a_dry_run_names_each_missing_prerequisite_once(turnsmith, tmp_path):
    result = turnsmith("run", CONFIGS[0], "--dry-run", "--model.path", tmp_path / "none", "--trainer.kind", "fsdp")
    assert result.exit_code == 0
    assert result.stderr.count(f"{tmp_path}/none") == 1 and "config.json" in result.stderr


@pytest.mark.parametrize(
    ("command", "has_rft", "num_stages"), [("run", True, 2), ("rft", True, 0), ("rl", False, 2), ("eval", False, 0)]
)
def test_each_command_runs_its_part_of_the_recipe(turnsmith, command, has_rft, num_stages):
    config = json.loads(turnsmith(command, CONFIGS[0], "--dry-run").stdout)
    assert (config["rft"] is not None, len(config["stages"])) == (has_rft, num_stages)


def test_results_have_the_documented_json_keys(turnsmith, run_folder):
    result = turnsmith("results", run_folder.path, "--json")
    entries = json.loads(result.stdout)
    assert (result.exit_code, len(entries)) == (0, 8)
    fields = (
        "stage task_set pass_at_1 sem pass_at_k k num_tasks num_runs mean_turns submit_rate outcomes num_lost isolation "
        "num_attempts num_tasks_at_k num_tasks_in_set pass_at_1_bounds pass_at_k_bounds sampling versions"
    )
    assert all(list(entry) == fields.split() for entry in entries)


def test_results_without_json_are_a_table(turnsmith, run_folder):
    assert "Pass@1 ± SEM" in turnsmith("results", run_folder.path).stdout


def test_bounds_with_lost_rollouts_are_printed_below_the_table(turnsmith, run_folder):
    losses = {"num_lost": 1, "num_attempts": 207, "num_tasks_at_k": 103, "num_tasks_in_set": 104}
    bounds = {"pass_at_1_bounds": [0.079, 0.084], "pass_at_k_bounds": [0.11, 0.12]}
    file = run_folder.result("base", "practice")
    file.write_text(json.dumps(json.loads(file.read_text()) | losses | bounds))
    for command in ("results", "show"):
        words = " ".join(turnsmith(command, run_folder.path).stdout.split())
        assert re.search(r"base on practice: 1 rollouts? .*207 attempts", words)
        assert "pass@2 on 103 (11.0% to 12.0%" in words


def test_an_unfinished_solve_has_no_solution(turnsmith, run_folder):
    write_json(run_folder.issue, {})
    with locked(run_folder):
        assert "process" in turnsmith("show", run_folder.path).stderr
    assert "killed" in turnsmith("show", run_folder.path).stderr


@pytest.mark.parametrize("command", ["results", "show"])
def test_a_run_with_a_live_process_is_running(turnsmith, run_folder, command):
    with locked(run_folder):
        live = turnsmith(command, run_folder.path).stdout
        assert re.search(rf"running: .*{run_folder.path}\n", live) and "turnsmith resume" not in live
        assert json.loads(turnsmith("show", run_folder.path, "--json").stdout)["state"] == "running"
    left = turnsmith(command, run_folder.path).stdout
    assert f"not finished: `turnsmith resume {run_folder.path}`" in left and "running" not in left
    run_folder.results.write_text("[]")
    with locked(run_folder):
        assert "running" not in turnsmith(command, run_folder.path).stdout


def test_results_without_isolation_carry_a_warning(turnsmith, run_folder):
    assert "warning: " not in turnsmith("results", run_folder.path).output
    file = run_folder.result("base", "practice")
    write_json(file, json.loads(file.read_text()) | {"isolation": "none"})
    assert "warning: " in turnsmith("results", run_folder.path).stdout
    result = turnsmith("results", run_folder.path, "--json")
    assert json.loads(result.stdout) and "warning: " in result.stderr


def test_a_run_is_shown_as_tables(turnsmith, run_folder):
    text = turnsmith("show", run_folder.path).stdout
    assert "Pass@1 ± SEM" in text and "entropy" in text and "TFLOP/s" not in text
    metrics = run_folder.iteration("stage2", 4).metrics
    write_json(metrics, read_json(metrics) | {"time/update_s": 12.0, "compute/tflops_per_rank": 3.0})
    assert "useful operations of one rank" in turnsmith("show", run_folder.path).stdout
    assert f"turnsmith show {run_folder.path} --trajectory eval-stage2" in text


@pytest.mark.parametrize(
    ("without", "beginning"),
    [({}, "eval-base"), ({"eval_tasks": {}}, "rft"), ({"eval_tasks": {}, "rft": None}, "stage1")],
)
def test_a_run_without_results_suggests_ids_of_its_first_stage(turnsmith, run_folder, without, beginning):
    shutil.rmtree(run_folder.path / "evals")
    config = json.loads(run_folder.config.read_text())
    run_folder.config.write_text(json.dumps(config | without))
    text = turnsmith("show", run_folder.path).stdout
    assert f"turnsmith show {run_folder.path} --trajectory {beginning}\n" in text


def test_a_run_is_shown_as_json(turnsmith, run_folder):
    shown = json.loads(turnsmith("show", run_folder.path, "--json").stdout)
    assert (shown["finished"], len(shown["results"]), len(shown["iterations"])) == (False, 8, 11)
    assert shown["iterations"][1]["metrics"]["rollouts/resolved_rate"] == 0.3
    trajectories = json.loads(turnsmith("show", run_folder.path, "--trajectory", "eval-base", "--json").stdout)
    assert [trajectory["outcome"] for trajectory in trajectories] == ["resolved", "unresolved"]


def test_one_trajectory_is_shown_without_control_sequences(turnsmith, run_folder):
    result = turnsmith("show", run_folder.path, "--trajectory", "eval-base/practice-1.swap.1f3a9c04/0")
    assert result.exit_code == 0
    assert "turn 1" in result.stdout
    assert "\x1b" not in result.stdout and "\\x1b[2J" in result.stdout


def test_of_two_trajectories_with_one_id_the_current_one_is_shown(turnsmith, run_folder):
    shutil.copytree(run_folder.evaluations("base"), run_folder.evaluations("base@5"))
    assert "turn 1" in turnsmith("show", run_folder.path, "--trajectory", "eval-base/practice-1.swap.1f3a9c04/0").stdout


def test_the_beginning_of_an_id_lists_matching_trajectories(turnsmith, run_folder):
    text = turnsmith("show", run_folder.path, "--trajectory", "eval-base").stdout
    assert "2 trajectories, stage eval-base, task practice-1.swap.1f3a9c04" in text


def test_show_suggests_commands_from_task_to_attempt_and_back(turnsmith, run_folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    table = turnsmith("show", run_folder.path, "--task", "practice-1.swap.1f3a9c04").stdout
    short_ids = [line.split()[0] for line in table.splitlines() if " eval-" in line]
    assert len(set(short_ids)) == 8
    assert f"turnsmith show {run_folder.path} --trajectory {short_ids[0]}\n" in table
    one = turnsmith("show", run_folder.path, "--trajectory", short_ids[7]).stdout
    assert "eval-stage2/practice-1.swap.1f3a9c04/1" in one and "prompt · 2 tokens" in one
    assert f"turnsmith show {run_folder.path} --task practice-1.swap.1f3a9c04\n" in one


def test_trajectories_are_filtered_and_sorted(turnsmith, run_folder):
    longer = make_trajectory("stage1-0000/other/0", Outcome.TAMPERED).grow(duration_s=9.0)
    append_trajectory(run_folder.iteration("stage1", 0).trajectories, longer)

    def find(*options):
        shown = turnsmith("show", run_folder.path, "--json", *options)
        return [each["trajectory_id"].split("/", 1) for each in json.loads(shown.stdout)]

    assert {index[-1] for _, index in find("--outcome", "resolved")} == {"0"}
    assert len(find("--outcome", "resolved", "--outcome", "tampered")) == 5
    assert find("--task", "other") == find("--outcome", "tampered") == [["stage1-0000", "other/0"]]
    assert find("--sort", "seconds")[0] == find("--sort", "task")[0] == ["stage1-0000", "other/0"]
    assert len(find("--sort", "turns")) == 9
    refused = turnsmith("show", run_folder.path, "--outcome", "grader_failed", "--task", "other")
    assert refused.exit_code == 2 and re.search(r"'other' .*grader_failed", refused.stderr)
    assert turnsmith("show", run_folder.path, "--outcome", "won").exit_code == 2


def test_doctor_prints_yes_or_a_remedy_for_each_check(turnsmith):
    findings = json.loads(turnsmith("doctor", "--json").stdout)
    names = [finding["name"] for finding in findings]
    assert {"extra train", "accelerators", "memory", "cores", "disk", "git", "python"} <= set(names)
    assert len(set(names)) == len(names)
    assert all(finding["ok"] or finding["remedy"] for finding in findings)
    assert "remedy" in turnsmith("doctor").stdout


def test_doctor_checks_a_chat_template(turnsmith, model_directory, tmp_path):
    options = ["doctor", "--json", "--model.path"]
    shown = {finding["name"]: finding["detail"] for finding in json.loads(turnsmith(*options, model_directory).stdout)}
    assert shown["between turns"] == repr("\n<|im_start|>user\nOBSERVATION<|im_end|>\n<|im_start|>assistant\n")
    thinking = shutil.copytree(model_directory, tmp_path / "thinking")
    template = (thinking / "chat_template.jinja").read_text()
    (thinking / "chat_template.jinja").write_text(
        template.replace("message.content", "message.content.split('</think>')[-1]")
    )
    weights, architecture, finding = json.loads(turnsmith(*options, thinking).stdout)
    assert (weights["ok"], architecture["ok"], finding["ok"]) == (True, True, False)
    assert "--model.chat.template keep-turns" in finding["remedy"]
    assert "append" in turnsmith(*options, thinking, "--model.chat.template", "keep-turns").stdout


def test_doctor_names_stop_tokens_that_are_ordinary_text(turnsmith, model_directory, tmp_path):
    model = shutil.copytree(model_directory, tmp_path / "model")
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": vocabulary["#"]}))
    found = {each["name"]: each for each in json.loads(turnsmith("doctor", "--json", "--model.path", model).stdout)}
    assert not found["stop tokens"]["ok"]
    assert (
        "# is ordinary text" in found["stop tokens"]["detail"]
        and "generation_config.json" in found["stop tokens"]["remedy"]
    )


def test_doctor_compares_the_prompts_with_the_context_of_the_model(turnsmith):
    found = {each["name"]: each for each in json.loads(turnsmith("doctor", "--json", "--model.path", "tiny").stdout)}
    assert re.search(r"brief \d+ tokens, paper 2,\d+ tokens, of 4,096 positions", found["prompts"]["detail"])
    assert found["prompts"]["ok"] and "agent.prompts brief" in found["prompts"]["remedy"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model_type": "gemma2"}, "attn_logit_softcapping"),
        ({"model_type": "gemma3_text"}, "sliding_window"),
        ({"model_type": "gemma3"}, "sliding_window"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding_window 4096"),
    ],
)
def test_doctor_names_an_architecture_that_loading_refuses(turnsmith, model_directory, tmp_path, fields, named):
    model = shutil.copytree(model_directory, tmp_path / "model")
    (model / "config.json").write_text(json.dumps(fields))
    result = turnsmith("doctor", "--json", "--model.path", model)
    found = {finding["name"]: finding for finding in json.loads(result.stdout)}
    assert not found["architecture"]["ok"] and named in found["architecture"]["detail"]
    assert "plain causal attention" in found["architecture"]["remedy"]


def halve(model):
    weights = model / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (shutil.rmtree, "config.json"),
        (lambda model: (model / "config.json").unlink(), "config.json"),
        (lambda model: (model / "config.json").write_text("{}"), "cannot be used"),
        (lambda model: (model / "model.safetensors").unlink(), "weights"),
        (halve, "model.safetensors cannot be read"),
    ],
)
def test_doctor_refuses_a_model_with_missing_files_or_broken_weights(
    turnsmith, model_directory, tmp_path, damage, named
):
    model = shutil.copytree(model_directory, tmp_path / "model")
    damage(model)
    result = turnsmith("doctor", "--model.path", model)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert str(model) in result.stderr and named in result.stderr


def test_paths_become_absolute_and_names_stay(tmp_path, monkeypatch):
    """A run can be resumed from anywhere."""
    monkeypatch.chdir(tmp_path)
    paths = {
        "model": {"path": "base", "chat": {"template": "chat.jinja"}}, "agent": {"prompts": "mine"},
        "engine": {"kind": "vllm", "vllm": {"python": "venv/bin/python"}, "options": {"cache": {"at": "./engine"}}},
        "sandbox": {"kind": "podman", "image": "./root", "container_engine": "bin/podman", "options": {"log": "./log"}},
        "trainer": {"options": {"files": ["./one"]}}, "tracking": {"mine:Tracker": {"file": "./metrics"}},
        "train_tasks": {"path": "tasks", "subset": "ids.txt"}, "eval_tasks": {"a": {"package": "checkout"}},
        "rft": {"conversations": "teacher"},
        "stages": [{"curriculum": True, "curriculum_from": "runs/a:one", "algorithm_options": {"at": "../algorithm"}}],
    }  # fmt: skip
    names = {
        "model": {"path": "tiny"}, "agent": {"prompts": "brief"},
        "sandbox": {"kind": "podman", "image": "debian", "container_engine": "docker"},
        "engine": {"kind": "vllm", "vllm": {"python": "python3"}, "options": {"mode": "fast/safe"}},
        "train_tasks": {"path": "/tasks", "subset": "verified-50"}, "eval_tasks": {"a": {"package": "toolz==1.0.0"}},
    }  # fmt: skip
    moved = flatten(make_paths_absolute(RunConfig.model_validate(paths)).model_dump(mode="json"))
    for value in (
        "base", "chat.jinja", "mine", "venv/bin/python", "engine", "root", "bin/podman", "log", "one", "metrics", "tasks",
        "ids.txt", "checkout", "teacher", "runs/a:one", "../algorithm",
    ):  # fmt: skip
        assert f"{tmp_path}/{value}" in moved.values(), value
    config = RunConfig.model_validate(names)
    assert make_paths_absolute(config) == config
