"""`turnsmith view` serves pages on this machine or shows them in the terminal, and refuses bad input with one sentence."""

import fcntl
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from urllib.request import urlopen

import pytest


@pytest.mark.slow
def test_the_command_serves_a_run_until_it_is_interrupted(run_folder):
    command = [sys.executable, "-m", "turnsmith", "view", str(run_folder.path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        [address] = re.findall(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())
        with urlopen(address) as page:
            assert b"main.js" in page.read()
        server.terminate()
        assert "Traceback" not in server.stderr.read()


def test_a_folder_of_other_things_is_refused(turnsmith, tmp_path):
    result = turnsmith("view", tmp_path)
    assert result.exit_code == 2 and "neither a run nor a folder of runs" in result.stderr


def test_a_port_in_use_is_refused(turnsmith, run_folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = turnsmith("view", run_folder.path, "--port", taken.getsockname()[1])
    assert result.exit_code == 2 and "give another --port" in result.stderr


def test_another_address_needs_a_token(turnsmith, run_folder):
    result = turnsmith("view", run_folder.path, "--host", "0.0.0.0")
    assert result.exit_code == 2 and "add --token" in result.stderr


def test_pages_in_a_terminal_need_one(turnsmith, run_folder):
    result = turnsmith("view", run_folder.path, "--terminal")
    assert result.exit_code == 2 and "--terminal needs a terminal" in result.stderr


def test_pages_in_a_terminal_end_with_q(run_folder):
    """Run the command in a pseudo-terminal of 80 × 24 characters."""
    first, second = pty.openpty()
    fcntl.ioctl(second, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "turnsmith", "view", str(run_folder.path), "--terminal"]
    with subprocess.Popen(command, stdin=second, stdout=second, stderr=second, start_new_session=True) as pages:
        os.close(second)
        shown = b""
        while b"trajectories" not in shown:
            shown += os.read(first, 65536)
        os.write(first, b"q")
        with suppress(OSError):  # the end of a pseudo-terminal
            while os.read(first, 65536):
                pass
        assert pages.wait() == 0
    os.close(first)
