"""Output that can hold nothing but ASCII: every command prints with replacements."""

import json
import os
import subprocess
import sys

import pytest

ASCII = {
    "forced": {"PYTHONIOENCODING": "ascii"},
    "plain locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def run(encoding, *arguments):
    command = [sys.executable, "-m", "turnsmith", *map(str, arguments)]
    return subprocess.run(command, env=os.environ | ASCII[encoding], capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ASCII)
def test_characters_outside_ascii_are_replaced_in_tables_and_trajectories(run_folder, encoding):
    result = run(encoding, "show", run_folder.path, "--trajectory=eval-base/practice-1.swap.1f3a9c04/0")
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"?" in result.stdout and result.stdout.isascii()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ASCII)
def test_a_run_finishes_with_its_progress_in_ascii(config_file, tmp_path, encoding):
    folder = tmp_path / "run-é"
    result = run(encoding, "eval", config_file, "--out", folder)
    assert (result.returncode, b"Traceback" in result.stderr) == (0, False), result.stderr
    assert json.loads((folder / "results.json").read_text())


def test_a_reason_to_stop_is_read_again_in_any_locale(run_folder):
    run_folder.stop_reason.write_text("no space for é\n", encoding="utf-8")
    result = run("plain locale", "results", run_folder.path)
    assert (result.returncode, b"stopped: no space for " in result.stdout) == (0, True)
