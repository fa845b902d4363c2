"""Builds of environments; a failed build leaves no process, no folder and no record."""

import os
import subprocess
import threading
import time

import pytest

from support.machine.host_processes import wait_until
from turnsmith.environments import equipping
from turnsmith.environments.building import FOLDER, BuildFailed, BuildStopped, Recipe, build, find_cause
from turnsmith.environments.equipping import EnvironmentOptions, build_first_working
from turnsmith.environments.pythons import find_pythons


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "kept.txt").write_text("as it is\n")
    return folder


def recipe_of(*commands):
    return Recipe(str(find_pythons()[0].version), commands)


def list_processes(word):
    return subprocess.run(["pgrep", "-f", word], capture_output=True, text=True, check=False).stdout.split()


def test_what_building_adds_is_a_layer_and_what_it_changes_is_not(tree, tmp_path):
    commands = ("echo changed > kept.txt; echo new > added.txt; mkdir build; touch build/x", "python -c 'import json'")
    made = build(recipe_of(*commands), (tree,), "/testbed", tmp_path, threading.Event())
    assert {path.name: path.read_text() for path in made.layer.iterdir()} == {"added.txt": "new\n"}
    assert (tree / "kept.txt").read_text() == "as it is\n"
    assert (made.folder / "bin" / "python").exists()


def test_of_the_tree_that_it_was_built_from_the_metadata_tell_nothing(tree, tmp_path):
    headers = "Name: shop\\nDescription: Old.\\n  Of two lines.\\nRequires-Dist: x\\n"
    packages = "$(python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
    commands = (
        f"mkdir a.egg-info; echo tests/new.py > a.egg-info/SOURCES.txt; printf '{headers}\\nNew.' > a.egg-info/PKG-INFO",
        f"d={packages}/a-1.dist-info; mkdir -p $d; echo {{}} > $d/direct_url.json; cp a.egg-info/PKG-INFO $d/METADATA",
    )
    made = build(recipe_of(*commands), (tree,), "/testbed", tmp_path, threading.Event())
    [installed] = made.folder.glob("lib/*/*-packages/a-1.dist-info/METADATA")
    assert {path.name for path in (made.layer / "a.egg-info").iterdir()} == {"PKG-INFO"}
    for metadata in (installed, made.layer / "a.egg-info/PKG-INFO"):
        assert metadata.read_text() == "Name: shop\nRequires-Dist: x\n"


def test_a_command_that_fails_is_named_with_its_cause(tree, tmp_path):
    with pytest.raises(BuildFailed, match=r"failed: error: no such thing.* log"):
        build(recipe_of("echo 'error: no such thing'; exit 3"), (tree,), "/testbed", tmp_path, threading.Event())
    assert not [path for path in (tmp_path / FOLDER).iterdir() if path.is_dir()]


def test_what_has_failed_fails_again_at_once_until_the_next_command(tree, tmp_path, monkeypatch):
    options = EnvironmentOptions(str(find_pythons()[0].version), (f"test -e {tmp_path}/remedy",))
    facts = {"date": "2024-05-03", "version": "1", "options": options, "stopped": threading.Event()}
    for _ in range(2):
        with pytest.raises(BuildFailed):
            build_first_working({}, (tree,), "/testbed", tmp_path, **facts)
        (tmp_path / "remedy").touch()
    monkeypatch.setattr(equipping, "_failed", {})  # as in another process
    assert build_first_working({}, (tree,), "/testbed", tmp_path, **facts).folder.is_dir()


def test_whoever_stops_it_waits_for_nothing_and_nothing_is_left(tree, tmp_path):
    stopped, mark = threading.Event(), f"61.{os.getpid()}"

    def stop_when_it_runs():
        wait_until(lambda: list_processes(f"sleep {mark}"))
        stopped.set()

    threading.Thread(target=stop_when_it_runs).start()
    started = time.monotonic()
    with pytest.raises(BuildStopped):
        build(recipe_of(f"sleep {mark}"), (tree,), "/testbed", tmp_path, stopped)
    assert time.monotonic() - started < 45
    assert list_processes(f"sleep {mark}") == []
    assert [path.suffix for path in (tmp_path / FOLDER).iterdir()] == [".log"]


def test_the_cause_is_the_first_error_and_what_follows():
    assert find_cause(b"one\nerror: no solution\n  cause: x\n") == "error: no solution cause: x"
    assert find_cause(b"one\ntwo\n") == "two"
    assert "nothing" in find_cause(b"")
