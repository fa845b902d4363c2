"""Ctrl-C and SIGTERM: one line at once, and an end in any case, with all that the process has started."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from support.machine.host_processes import is_alive, wait_until
from turnsmith.ui import interruption

DEAF = """
import signal, subprocess, sys, time
from turnsmith.ui import interruption
interruption.PATIENCE_S, interruption.ECHO_S = map(float, sys.argv[1:])
signal.signal(signal.SIGINT, lambda *_: None)
interruption.listen()
with interruption.announcing(remark="resume with `x`"):
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; wait"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    print(shell.pid, shell.stdout.readline().strip(), flush=True)
    while True:
        time.sleep(1000)
"""
"""A program with a child and a grandchild that does not end when it is asked to."""
FOREVER_S, AT_ONCE_S = 1e6, -1.0


@contextmanager
def start_deaf(patience_s, echo_s):
    command = [sys.executable, "-c", DEAF, str(patience_s), str(echo_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, list(map(int, process.stdout.readline().split()))
        finally:
            process.kill()


@pytest.mark.usefixtures("obeys_ctrl_c")
@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_a_hanging_process_is_killed_with_its_descendants(request_to_end):
    with start_deaf(patience_s=0.2, echo_s=interruption.ECHO_S) as (deaf, started):
        assert all(map(is_alive, started)) and len(started) == 2
        deaf.send_signal(request_to_end)
        assert deaf.stderr.readline().endswith("resume with `x`\n")
        assert deaf.wait(60) == 128 + request_to_end
        wait_until(lambda: not any(map(is_alive, started)))


def test_a_process_ends_within_ten_seconds_of_a_signal():
    assert interruption.PATIENCE_S <= 9


@pytest.mark.usefixtures("obeys_ctrl_c")
def test_a_second_ctrl_c_exits_at_once():
    with start_deaf(patience_s=FOREVER_S, echo_s=AT_ONCE_S) as (deaf, _):
        deaf.send_signal(signal.SIGINT)
        assert deaf.stderr.readline().startswith("stopping: ")
        deaf.send_signal(signal.SIGINT)
        assert deaf.wait(60) == 130


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_a_second_sigterm_does_not_exit_at_once(pipe, monkeypatch):
    monkeypatch.setattr(interruption, "PATIENCE_S", FOREVER_S)
    monkeypatch.setattr(interruption, "ECHO_S", AT_ONCE_S)
    reader, writer = pipe
    os.write(writer, bytes([signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1]))
    interruption._wait_for_second(reader)
    assert os.read(reader, 9) == bytes([signal.SIGUSR1])


def test_a_ctrl_c_right_after_the_first_is_ignored(pipe, monkeypatch):
    monkeypatch.setattr(interruption, "PATIENCE_S", 0.2)
    monkeypatch.setattr(interruption, "ECHO_S", FOREVER_S)
    reader, writer = pipe
    os.write(writer, bytes([signal.SIGINT, signal.SIGINT]))
    interruption._wait_for_second(reader)
    with pytest.raises(BlockingIOError):
        os.read(reader, 9)
