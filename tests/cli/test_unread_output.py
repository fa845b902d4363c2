"""Output that nobody reads to its end: every command stops without a word."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import make_trajectory
from turnsmith.runs.journal import append_trajectory

COMMANDS = [
    ("--help",),
    ("tasks", "make", "--help"),
    ("show", "{run}"),
    ("show", "{run}", "--json"),
    ("results", "{run}"),
    ("show", "{run}", "--task", "practice-1"),
]


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""Without buffers Python drops the rest of a partial write, and the command never learns of it."""


def run(stream, *arguments):
    """Run a command whose standard output or error is a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {stream: writer}
    try:
        return subprocess.run([sys.executable, "-m", "turnsmith", *arguments], **streams, env=BUFFERED, check=False)
    finally:
        os.close(writer)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_closed_pipe_ends_a_command_silently(run_folder, command):
    result = run("stdout", *(each.format(run=run_folder.path) for each in command))
    assert (result.returncode, result.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_pipe_closed_during_long_output_ends_a_command_silently(run_folder):
    journal = run_folder.eval_trajectories("base", "practice")
    for number in range(2, 40):
        name = f"eval-base/practice-1.swap.1f3a9c04/{number}"
        append_trajectory(journal, make_trajectory(name, observation="x" * 10_000))
    command = [sys.executable, "-m", "turnsmith", "show", run_folder.path, "--trajectory", "eval-base", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=BUFFERED) as process:
        assert process.stdout.readline() == b"[\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_an_error_keeps_its_exit_code_if_the_pipe_is_closed(tmp_path):
    result = run("stdout", "show", str(tmp_path / "nowhere"))
    assert result.returncode == 2 and result.stderr.startswith(b"error: ")


def test_an_error_with_a_closed_pipe_ends_silently(tmp_path):
    result = run("stderr", "show", str(tmp_path / "nowhere"))
    assert (result.returncode, result.stdout) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("command", [("--help",), ("--version",), ("tasks", "--help")], ids=" ".join)
def test_a_full_disk_ends_help_in_one_sentence(command):
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "turnsmith", *command], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert result.returncode == 2 and result.stderr.startswith(b"error: the disk is full")
