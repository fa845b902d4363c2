"""Python interpreters of this machine, and the choice for a project by date."""

import os
import sys

import pytest
from packaging.version import Version

from turnsmith.environments import pythons
from turnsmith.environments.pythons import Python, choose_python, find_python, find_pythons
from turnsmith.errors import UsageError


@pytest.fixture
def known(monkeypatch, tmp_path):
    """Pretend that these interpreters are installed."""
    found = tuple(Python(Version(name), tmp_path, tmp_path) for name in ("3.13.1", "3.11.7", "3.9.18", "3.7.9"))
    monkeypatch.setattr(pythons, "find_pythons", lambda: found)


def test_the_one_that_runs_us_is_found():
    ours = Version(".".join(map(str, sys.version_info[:3])))
    assert ours in {python.version for python in find_pythons()}


@pytest.mark.usefixtures("known")
def test_by_minor_or_whole_version():
    assert str(find_python("3.9").version) == str(find_python("3.9.18").version) == "3.9.18"
    with pytest.raises(UsageError, match=r"Python 3\.8 .*3\.13\.1, 3\.11\.7"):
        find_python("3.8")


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("requires", "date", "classifiers", "version"),
    [
        ("", "2026-01-01", (), "3.13.1"),
        ("", "2023-01-01", (), "3.11.7"),
        (">=3.6", "2019-01-01", (), "3.7.9"),
        (">=3.6", "2021-01-01", ("3.6", "3.7"), "3.7.9"),
        (">=3.9", "2019-01-01", (), "3.9.18"),
        ("<3.10", "2026-01-01", (), "3.9.18"),
    ],
)
def test_the_newest_that_was_out_and_is_admitted(requires, date, classifiers, version):
    assert str(choose_python(requires, date, classifiers).version) == version


@pytest.mark.usefixtures("known")
def test_none_is_admitted():
    with pytest.raises(UsageError, match=r"requires-python '<3'"):
        choose_python("<3", "2026-01-01")


@pytest.mark.usefixtures("known")
def test_old_spellings_of_bounds_are_read():
    assert str(choose_python(">=3.6.*, <3.10", "2026-01-01").version) == "3.9.18"
    with pytest.raises(UsageError, match="'newest'"):
        choose_python("newest", "2026-01-01")


@pytest.mark.parametrize(
    ("variable", "value", "place"),
    [
        ("CONDA_EXE", "opt/bin/conda", "opt/envs/old/bin/python3"),
        ("CONDA_PREFIX", "opt/envs/old", "opt/envs/old/bin/python3"),
        ("HOME", ".", "miniforge3/bin/python3"),
    ],
)
def test_conda_is_looked_through(monkeypatch, tmp_path, variable, value, place):
    program = tmp_path / place
    program.parent.mkdir(parents=True)
    program.symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setenv(variable, str(tmp_path / value))
    assert program in pythons.list_programs()


def test_the_active_conda_comes_before_those_of_the_home_folder(monkeypatch, tmp_path):
    """`find_pythons` takes the first of two interpreters of one version."""
    places = {"CONDA_EXE": "called", "CONDA_PREFIX": "active", "HOME": "miniforge3"}
    for folder in places.values():
        (tmp_path / folder / "bin").mkdir(parents=True)
        (tmp_path / folder / "bin/python3").touch()
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "called/bin/conda"))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "active"))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = [program.parent.parent.name for program in pythons.list_programs() if tmp_path in program.parents]
    assert found == list(places.values())
