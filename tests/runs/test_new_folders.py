import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.errors import UsageError
from turnsmith.runs.new_folders import building, to_folder_name

KILLED = """
import os, pathlib, signal, sys
from turnsmith.runs.new_folders import building
with building(pathlib.Path(sys.argv[1])) as folder:
    (folder / "half").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with building(tmp_path / "new/out") as folder:
        (folder / "a").write_text("x")
        assert not (tmp_path / "new/out").exists()
    assert names(tmp_path / "new") == ["out"] and names(tmp_path / "new/out") == ["a"]
    with pytest.raises(ZeroDivisionError), building(tmp_path / "other"):
        raise ZeroDivisionError
    assert names(tmp_path) == ["new"]


def test_what_a_kill_leaves_the_next_start_removes(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "out"], check=False)
    assert killed.returncode == -9 and len(names(tmp_path)) == 1
    with building(tmp_path / "out"):
        assert len(names(tmp_path)) == 1
    assert names(tmp_path) == ["out"]


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/precious").write_text("x")
    with pytest.raises(UsageError, match="exists"), building(tmp_path / "out"):
        pass


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("django__django-1", "django__django-1"), ("owner/model", "owner__model"), ("..", "%2E."), (".", "%2E"), ("", "%"),
        ("../../x", "%2E.__..__x"), ("a\x1b[2J", "a%1B[2J"), ("a\nb\0", "a%0Ab%00"), ("a\u202eb", "a%E2%80%AEb"),
        ("\ud800", "%ED%A0%80"), ("%2E.", "%252E."), ("%", "%25"),
    ],
)  # fmt: skip
def test_a_name_of_others_becomes_that_of_one_plain_folder(text, name):
    assert to_folder_name(text) == name


@given(st.text(st.characters(exclude_categories=[]), max_size=400))
def test_a_folder_name_is_one_printable_step_down(text):
    name = to_folder_name(text)
    assert name.isprintable() and "/" not in name and not name.startswith(".") and 0 < len(name.encode()) <= 255
    assert Path("a", name).resolve().parent == Path("a").resolve()


def test_long_names_stay_different():
    assert to_folder_name("é" * 300 + "a") != to_folder_name("é" * 300 + "b")
