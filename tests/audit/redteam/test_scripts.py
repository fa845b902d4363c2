import json
from typing import get_args

import pytest
from typer.testing import CliRunner

from support.grading.naive import NAIVE, find_fooled
from turnsmith.audit.redteam.scripts import CHECKOUT, DEFENCES, TargetName, find_folder, read_script, read_scripts
from turnsmith.audit.redteam.targets import to_module
from turnsmith.cli import make_app
from turnsmith.errors import UsageError

SCRIPTS = read_scripts(CHECKOUT)
ATTACKS = [script for script in SCRIPTS if script.kind == "attack"]
HONEST = [script for script in SCRIPTS if script.kind == "honest"]


def run(*arguments):
    return CliRunner().invoke(make_app(), ["redteam", *map(str, arguments)])


def test_headers_contain_known_values():
    assert len({script.name for script in SCRIPTS}) == len(SCRIPTS)
    for script in SCRIPTS:
        assert script.tries.endswith("."), script.name
        assert set(find_fooled(script)) <= set(NAIVE), script.name
        assert script.only in ("", *get_args(TargetName)), script.name


def test_attacks_cover_both_layers():
    assert {script.layer for script in ATTACKS} == set(DEFENCES)
    assert len(ATTACKS) <= 64
    assert len(HONEST) >= 10


def test_only_honest_scripts_apply_the_fix():
    assert all("git apply" in script.text for script in HONEST)
    assert not any("git apply" in script.text for script in ATTACKS)


def test_header_is_read(tmp_path):
    path = tmp_path / "a-trick.sh"
    path.write_text("# tries: Tricks.\n# layer: audit\n# fools: log, exit-code\n# only: toy\ntrue\n")
    script = read_script(path, "attack")
    assert (script.name, script.tries, script.layer) == ("a-trick", "Tricks.", "audit")
    assert find_fooled(script) == ["log", "exit-code"]
    assert script.only == "toy"


@pytest.mark.parametrize("header", ["# layer: audit", "# tries: Tricks.", "# tries: Tricks.\n# layer: luck"])
def test_attack_without_header_is_refused(tmp_path, header):
    path = tmp_path / "a-trick.sh"
    path.write_text(f"{header}\ntrue\n")
    with pytest.raises(UsageError, match=r"a-trick.* header"):
        read_script(path, "attack")


def test_a_missing_script_folder_is_reported_with_its_location(tmp_path):
    result = run("--list", "--scripts", tmp_path)
    assert result.exit_code == 2
    assert "--scripts" in result.stderr


def test_scripts_are_found_in_the_checkout():
    assert find_folder(None).joinpath("attacks/exit-on-call.sh").is_file()


def test_an_unknown_script_is_refused():
    result = run("--only", "magic")
    assert result.exit_code == 2
    assert "'magic'" in result.stderr


def test_scripts_can_be_listed():
    [row] = json.loads(run("--list", "--only", "exit-on-call", "--json").stdout)
    assert (row["name"], row["kind"], row["layer"]) == ("exit-on-call", "attack", "verdict")
    assert "exit-on-call" in run("--list", "--only", "exit-on-call").stdout


@pytest.mark.parametrize(
    ("source", "module"),
    [("src/spans/merging.py", "spans.merging"), ("inflection/__init__.py", "inflection"), ("a.py", "a")],
)
def test_a_source_path_maps_to_its_import_name(source, module):
    assert to_module(source) == module
