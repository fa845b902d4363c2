"""Extensions as docs/extending.md shows them: a run that uses all of them, and the diffs that give them short names."""

import importlib
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.data_sets.golden_rows import SWE_BENCH
from support.pages.page_examples import PAGE, write_examples
from support.pages.table_entries import assert_fits
from turnsmith.config.names import NameTable
from turnsmith.tasks.dataset import load_tasks
from turnsmith.tasks.sets.exporting import CORE

ROOT = PAGE.parents[1]

OWN = {
    "agent.scaffold": "my_scaffold:MINE",
    "agent.prompts": "my_prompts",
    "agent.tools": '["search_file"]',
    "stages.0.algorithm": "my_algorithm:MINE",
    "stages.0.algorithm_options.max_advantage": "0.5",
    "engine.kind": "my_engine:open_engine",
    "trainer.kind": "my_trainer:open_trainer",
    "tracking": '["my_tracker:JsonLines"]',
    "sandbox.kind": "my_sandbox:LoggedProvider",
    "sandbox.options.log": "./starts.log",
}
SMALL = ("--stages.0.iterations", "1", "--agent.max_turns", "1", "--eval.num_runs", "1", "--eval.k", "1")


def test_the_page_has_an_example_of_each_extension(tmp_path):
    kinds = ("algorithm", "tool", "scaffold", "engine", "trainer", "tracker", "sandbox", "set", "run")
    modules = {f"my_{kind}.py" for kind in kinds}
    templates = {f"my_prompts/{part}.jinja" for part in ("system", "issue", "demonstration")}
    assert write_examples(tmp_path) == modules | templates


def read_tables(file):
    """Return the tables of a module, by kind."""
    return {table.kind: table for table in runpy.run_path(str(file)).values() if isinstance(table, NameTable)}


def test_each_diff_adds_one_line_to_a_table_of_names(working_directory):
    """An extension touches two files: its own, which the page shows, and a table."""
    written, added = write_examples(working_directory), set()
    for diff in re.findall(r"^```diff\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        file = re.search(r"^[+]{3} b/(.*)$", diff, re.MULTILINE)[1]
        (working_directory / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, working_directory / file)
        subprocess.run(["git", "apply", "-"], cwd=working_directory, input=diff, text=True, check=True)
        old, new = read_tables(ROOT / file), read_tables(working_directory / file)
        [(kind, name)] = [(kind, name) for kind in old for name in new[kind].paths.keys() - old[kind].paths.keys()]
        module, _, attribute = new[kind].paths[name].partition(":")
        assert f"{module}.py" in written
        found = new[kind].load(name)
        assert found is getattr(importlib.import_module(module), attribute)
        assert_fits(found, kind)
        added.add(kind)
    assert added == {"algorithm", "data set", "sandbox kind", "scaffold", "tool", "trainer"}


@pytest.mark.slow
def test_a_run_takes_all_of_them_by_import_path(turnsmith, config_file, working_directory):
    write_examples(working_directory)
    options = [part for key, value in OWN.items() for part in (f"--{key}", value)]
    result = turnsmith("rl", config_file, "--out", working_directory / "run", *options, *SMALL)
    assert result.exit_code == 0, result.output
    [tracked] = (working_directory / "run").rglob("metrics.jsonl")
    assert [json.loads(line)["step"] for line in tracked.read_text().splitlines()] == [0, 1, 1]
    assert set((working_directory / "starts.log").read_text().split()) == {"/testbed"}


def test_a_data_set_is_imported_by_its_import_path(turnsmith, working_directory):
    write_examples(working_directory)
    row = {name: SWE_BENCH[name] for name in (*CORE, "FAIL_TO_PASS", "PASS_TO_PASS")}
    rows = [row | {"container": "localhost/shop"}, row | {"instance_id": "shop-18", "container": ""}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = turnsmith("tasks", "import", "my_set:REPAIRS", "--from", "rows.jsonl", "--out", "tasks")
    assert (result.exit_code, result.stdout) == (0, "imported 1 · refused 1 (1 no image) in tasks\n"), result.output
    [task] = load_tasks(Path("tasks"))
    assert (task.created_by, task.image, task.workdir) == ("repairs", "localhost/shop", "/repo")
    assert turnsmith("tasks", "export", "tasks", "--as", "my_set:REPAIRS", "--out", "rows").exit_code == 0
    assert json.loads(Path("rows/rows.jsonl").read_text()) == rows[0]
    swapped = turnsmith("tasks", "import", "swe-gym", "--from", "rows.jsonl", "--out", "other")
    assert swapped.exit_code == 2 and "of no known data set" in swapped.stderr


def test_a_mistake_in_a_data_set_is_one_sentence_and_exit_code_2(turnsmith, working_directory):
    write_examples(working_directory)
    module = Path("my_set.py").read_text()
    Path("my_set.py").write_text(module.replace("describe_core(row) |", "{'repo': row['origin']} |"))
    row = {name: SWE_BENCH[name] for name in (*CORE, "FAIL_TO_PASS", "PASS_TO_PASS")} | {"container": "localhost/shop"}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    sys.modules.pop("my_set", None)
    result = turnsmith("tasks", "import", "my_set:REPAIRS", "--from", "rows.jsonl", "--out", "tasks")
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert "data set repairs" in result.stderr and "KeyError: 'origin'" in result.stderr and "Refused" in result.stderr


@pytest.mark.slow
def test_a_run_started_from_python_is_finished(turnsmith, config_file, working_directory, capsys):
    write_examples(working_directory)
    (working_directory / "configs").mkdir()
    shutil.copyfile(config_file, working_directory / "configs" / "laptop.toml")
    runpy.run_path("my_run.py")
    assert capsys.readouterr().out == "practice 0.0\n"
    shown = turnsmith("results", "runs/mine")
    assert shown.exit_code == 0 and "not finished" not in shown.output
    assert json.loads(turnsmith("show", "runs/mine", "--json").stdout)["state"] == "finished"
    assert "base on practice: Pass@1 0.0%" in (working_directory / "runs/mine/run.log").read_text()


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("agent.scaffold", "bsh", "scaffold 'bsh': give bash, paper"),
        ("agent.scaffold", "my_scaffold:YOURS", "my_scaffold has no 'YOURS'"),
        ("agent.scaffold", "no_such_package:MINE", "no module no_such_package"),
        ("agent.tools", '["opne"]', "tool 'opne': give create, edit"),
        ("stages.0.algorithm", "ppo", "algorithm 'ppo': give cispo, dapo"),
        ("stages.0.algorithm", "my_tool:COUNT_LINES", "my_tool:COUNT_LINES is a Tool"),
        ("engine.kind", "fast", "engine 'fast': give inprocess, "),
        ("engine.kind", "no_such_package:ENGINE", "no module no_such_package"),
        ("trainer.kind", "zero", "trainer 'zero': give local, fsdp"),
        ("sandbox.kind", "docker", "sandbox kind 'docker': give local, podman, subprocess"),
        ("tracking", '["comet"]', "tracker 'comet': give tensorboard, wandb, mlflow"),
        ("tracking", '["my_tracker:Nothing"]', "my_tracker has no 'Nothing'"),
        ("stages.0.algorithm_options.beta", "0.1", "algorithm_options.beta"),
        ("sandbox.options.log", "a.log", "sandbox.options.log is unknown to local: its options are none"),
    ],
)
def test_a_wrong_choice_is_one_sentence_and_exit_code_2(
    turnsmith, config_file, working_directory, option, value, sentence
):
    write_examples(working_directory)
    result = turnsmith("rl", config_file, "--out", working_directory / "run", f"--{option}", value)
    assert result.exit_code == 2 and sentence in result.stderr
    assert not (working_directory / "run").exists()


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"sandbox.options.file": "a"},
            "sandbox.options.file is unknown to my_sandbox:LoggedProvider: its options are log",
        ),
        ({"sandbox.options.log": "3"}, "sandbox.options.log: Input should be a valid string"),
        ({"engine.options.speed": "3"}, "engine.options.speed is unknown"),
        ({"trainer.options.speed": "3"}, "trainer.options.speed is unknown"),
        ({"tracking": '{"my_tracker:JsonLines": {"file": "a"}}'}, "tracking.my_tracker:JsonLines.file is unknown"),
    ],
)
def test_a_wrong_option_of_an_extension_is_one_sentence_and_exit_code_2(
    turnsmith, config_file, working_directory, keys, sentence
):
    write_examples(working_directory)
    kinds = {key: OWN[key] for key in ("sandbox.kind", "engine.kind", "trainer.kind")}
    options = [f"--{key}={value}" for key, value in (kinds | keys).items()]
    result = turnsmith("rl", config_file, "--out", working_directory / "run", *options)
    assert result.exit_code == 2 and sentence in result.stderr
    assert not (working_directory / "run").exists()


def test_grpo_with_beta_is_refused_before_the_run_begins(turnsmith, config_file, working_directory):
    grpo = ("--stages.0.algorithm", "grpo", "--stages.0.algorithm_options.beta", "0.04")
    result = turnsmith("rl", config_file, "--out", working_directory / "run", *grpo)
    assert result.exit_code == 2 and "algorithm_options.beta is unknown" in result.stderr
    assert not (working_directory / "run").exists()
