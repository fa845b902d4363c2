import subprocess
import sys

import pytest

from turnsmith.errors import UsageError
from turnsmith.new_folders import building

KILLED = """
import os, pathlib, signal, sys
from turnsmith.new_folders import building
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
    with pytest.raises(UsageError, match="exists already"), building(tmp_path / "out"):
        pass
