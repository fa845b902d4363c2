"""Temporary folders: removed at the end, swept after a kill, and kept while their process lives."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import turnsmith
from turnsmith.errors import UsageError
from turnsmith.runs.temporary import find_place, sweep, temporary_folder

HOLDING = """
import sys
from pathlib import Path
from turnsmith.runs.temporary import temporary_folder

parent = Path(sys.argv[1]) if sys.argv[1:] else None
with temporary_folder(".work", parent) as folder:
    (folder / "locked").mkdir(mode=0)
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Return a swept folder for temporary folders of this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    sweep.cache_clear()
    return find_place()


def start_holder(*arguments):
    """Start a process that makes a folder. Return the process and the folder's name."""
    pipe = subprocess.PIPE
    holder = subprocess.Popen([sys.executable, "-c", HOLDING, *arguments], stdin=pipe, stdout=pipe, text=True)
    return holder, holder.stdout.readline().strip().rpartition("/")[2]


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_gone_at_the_end_whatever_it_holds(place, tmp_path):
    (kept := tmp_path / "kept").mkdir(mode=0o755)
    with temporary_folder("diff") as folder:
        assert folder.parent == place and folder.name.startswith("diff-")
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "link").symlink_to(kept)
        (folder / "a").chmod(0)
    assert names_in(place) == []
    assert kept.stat().st_mode & 0o777 == 0o755


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_holds_is_not(place):
    killed, left = start_holder()
    living, held = start_holder()
    with killed:
        killed.send_signal(signal.SIGKILL)
    with living, temporary_folder("mine") as folder:
        assert names_in(place) == sorted([held, folder.name])
        living.stdin.close()
    assert names_in(place) == []
    assert left.startswith(".work-")


def test_beside_other_folders_only_those_of_the_purpose_are_swept(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other-1").mkdir()
    killed, left = start_holder(str(tmp_path / "out"))
    with killed:
        killed.send_signal(signal.SIGKILL)
    assert names_in(tmp_path / "out") == [left, "other-1"]
    with temporary_folder(".work", tmp_path / "out") as folder:
        assert names_in(tmp_path / "out") == [folder.name, "other-1"]
        folder.rename(tmp_path / "out" / "done")
    assert names_in(tmp_path / "out") == ["done", "other-1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_place_that_is_not_ours_is_refused(place):
    os.chown(place, 54_321, -1)
    with pytest.raises(UsageError, match="TMPDIR"):
        find_place()


def test_a_place_that_is_a_link_is_refused(place, tmp_path):
    place.rmdir()
    place.symlink_to(tmp_path)
    with pytest.raises(UsageError, match="TMPDIR"):
        find_place()


def test_no_temporary_folder_is_made_elsewhere():
    """So the sweep covers all folders of diffs, sandboxes, downloads and attacks that a kill leaves."""
    texts = {path: path.read_text() for path in Path(turnsmith.__file__).parent.rglob("*.py")}
    assert [
        path.name for path, text in texts.items() if re.search(r"^ *(import|from) tempfile", text, re.MULTILINE)
    ] == ["temporary.py"]


def test_a_temporary_folder_may_hold_others():
    with temporary_folder("outer") as outer, temporary_folder(".work", outer) as inner:
        assert inner.parent == outer
    assert not outer.exists()
