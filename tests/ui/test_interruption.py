"""Ctrl-C and SIGTERM: one line at once, and an end in any case, with all that the process has started."""

import signal
import subprocess
import sys
import time

import pytest

from host_processes import is_alive, wait_until

DEAF = """
import subprocess, time
from turnsmith.ui import interruption
interruption.listen()
with interruption.announcing(remark="resume with `x`"):
    child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        try:
            print(child.pid, flush=True)
            time.sleep(1000)
        except KeyboardInterrupt:
            print("heard", flush=True)
"""
"""A program that does not end when it is asked to."""


@pytest.fixture
def deaf(obeys_ctrl_c):
    with subprocess.Popen(
        [sys.executable, "-c", DEAF], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_does_not_end_is_ended_with_its_children_within_ten_seconds(deaf, request_to_end):
    child = int(deaf.stdout.readline())
    begin = time.monotonic()
    deaf.send_signal(request_to_end)
    assert deaf.stdout.readline() == "heard\n"
    assert deaf.stderr.readline().endswith("resume with `x`\n")
    assert deaf.poll() is None
    assert deaf.wait(60) == 128 + request_to_end
    assert time.monotonic() - begin < 10
    wait_until(lambda: not is_alive(child))


@pytest.mark.slow
def test_a_second_ctrl_c_ends_at_once(deaf):
    deaf.stdout.readline()
    deaf.send_signal(signal.SIGINT)
    assert deaf.stderr.readline().startswith("stopping: ")
    begin = time.monotonic()
    while deaf.poll() is None:
        deaf.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert deaf.returncode == 130
    assert time.monotonic() - begin < 5
