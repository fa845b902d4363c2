import pytest

from redteam.naive import NAIVE
from turnsmith.redteam.scripts import read_script, read_scripts
from turnsmith.redteam.targets import MAKERS, to_module

SCRIPTS = read_scripts()
ATTACKS = [script for script in SCRIPTS if script.kind == "attack"]
HONEST = [script for script in SCRIPTS if script.kind == "honest"]


def test_there_are_enough_of_both_kinds_for_each_target():
    for target in MAKERS:
        assert sum(script.suits(target) for script in ATTACKS) >= 40
        assert sum(script.suits(target) for script in HONEST) >= 10


def test_names_are_unique_and_headers_say_what_is_known():
    assert len({script.name for script in SCRIPTS}) == len(SCRIPTS)
    for script in SCRIPTS:
        assert script.tried.endswith("."), script.name
        assert set(script.fools) <= set(NAIVE), script.name
        assert set(script.targets) <= set(MAKERS), script.name


def test_most_attacks_have_a_control():
    assert sum(bool(script.fools) for script in ATTACKS) >= 0.75 * len(ATTACKS)


def test_only_honest_scripts_apply_the_fix():
    assert all("git apply" in script.text for script in HONEST)
    assert not any("git apply" in script.text for script in ATTACKS)
    assert not any(script.fools for script in HONEST)


def test_a_header_is_read(tmp_path):
    path = tmp_path / "a-trick.sh"
    path.write_text("# tries: Tricks.\n# fools: log, exit-code\n# only: toy\ntrue\n")
    script = read_script(path, "attack")
    assert (script.name, script.tried, script.fools, script.targets) == (
        "a-trick",
        "Tricks.",
        ("log", "exit-code"),
        ("toy",),
    )
    assert script.suits("toy") and not script.suits("package")


@pytest.mark.parametrize(
    ("source", "module"),
    [("src/spans/merging.py", "spans.merging"), ("inflection/__init__.py", "inflection"), ("a.py", "a")],
)
def test_the_name_by_which_a_source_is_imported(source, module):
    assert to_module(source) == module
