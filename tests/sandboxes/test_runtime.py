"""Test runtime folder: complete, isolated, built once, readable by everyone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from turnsmith.errors import UsageError
from turnsmith.sandboxes.runtime import describe_python, prepare_runtime, required_distributions


@pytest.mark.slow
def test_the_runtime_runs_pytest_with_nothing_else_in_sight(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mask = os.umask(0o077)
    try:
        runtime = prepare_runtime()
    finally:
        os.umask(mask)
    assert runtime.parent == tmp_path.resolve() / "turnsmith"
    (tmp_path / "test_x.py").write_text("def test_x(): pass\n")
    finished = subprocess.run(
        [sys._base_executable, "-S", "-m", "pytest", "-q", "test_x.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(runtime)},
        capture_output=True,
        text=True,
    )
    assert "1 passed" in finished.stdout, finished
    assert all(path.stat().st_mode & 0o004 for path in runtime.rglob("*"))
    assert not list(runtime.glob("hypothesis*"))


@pytest.mark.slow
def test_it_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = prepare_runtime()
    (first / "mark").touch()
    assert (prepare_runtime() / "mark").exists()
    assert [path.name for path in (tmp_path / "turnsmith").iterdir()] == [first.name]


def test_a_cache_that_cannot_be_made_is_said_with_the_remedy(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="XDG_CACHE_HOME"):
        prepare_runtime()


def test_only_what_pytest_requires_here_is_taken():
    names = {distribution.name for distribution in required_distributions("pytest")}
    assert {"pytest", "pluggy", "iniconfig", "packaging"} <= names
    assert not names & {"hypothesis", "torch", "attrs", "xmlschema", "turnsmith"}


def test_the_machine_is_described_without_links():
    machine = describe_python()
    assert Path(machine.program).resolve() == Path(machine.program)
    assert Path(machine.prefix).is_dir()
    assert machine.hidden and all(Path(folder).is_absolute() for folder in machine.hidden)
