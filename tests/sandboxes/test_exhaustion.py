"""Supervisor under exhaustion: resources of the agent are freed; shortage of the machine is not blamed on the agent."""

import contextlib
import errno
import multiprocessing
import os
import resource
import signal
import socket
from functools import partial
from pathlib import Path

import pytest

from turnsmith.sandboxes.inside import kernel, wire
from turnsmith.sandboxes.inside.supervisor import ExhaustedError, Supervisor
from turnsmith.sandboxes.inside.wire import Limits

LIMITS = Limits(memory_bytes=256 << 20, num_processes=200, disk_bytes=1 << 20, output_bytes=1000)
STRANGER = 30_000 + os.getpid() % 30_000
"""User id without processes, different in each copy of these tests."""
REQUESTS = {
    "exec": {"command": "echo x", "cwd": "/", "timeout_s": 20, "env": {}},
    "read": {"path": "/etc/passwd", "timeout_s": 20},
    "write": {"path": "/dev/null", "timeout_s": 20},
}


def leave_no_process():
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))


def leave_few_processes():
    resource.setrlimit(resource.RLIMIT_NPROC, (20, 20))


def leave_no_descriptor():
    """Use up all file descriptors but two, which the supervisor needs to start."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with contextlib.suppress(OSError):
        while taken := os.dup(0):
            last = taken
    os.closerange(last - 1, last + 1)


def serve(connection, other_end, impoverish):
    other_end.close()
    os.setresuid(STRANGER, STRANGER, STRANGER)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    supervisor = Supervisor(connection, LIMITS, {}, "/nowhere")
    impoverish()
    try:
        supervisor.run()
    except ExhaustedError as error:
        wire.send(connection, {"error": str(error)})
    os._exit(0)  # a tracer of coverage would write its file, where this user may not even look


@pytest.fixture
def start_with():
    """Start a supervisor in a new process that lacks some resource. Return functions to send and to receive."""
    if os.geteuid() != 0:
        pytest.skip("the processes of an ordinary user are not counted apart from ours")
    ends, servers = [], []

    def start(impoverish):
        ours, theirs = socket.socketpair()
        ours.settimeout(30)
        server = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, ours, impoverish))
        server.start()
        theirs.close()
        ends.append(ours)
        servers.append(server)

        def send(op, **fields):
            wire.send(ours, {"id": 7, "op": op, **REQUESTS[op], **fields})

        return send, partial(wire.receive, ours)

    yield start
    for end, server in zip(ends, servers, strict=True):
        end.close()
        server.join(10)
        assert server.exitcode == 0
        server.close()


@pytest.mark.parametrize("op", REQUESTS)
def test_a_machine_without_processes_is_no_result(start_with, op):
    send, receive = start_with(leave_no_process)
    send(op)
    assert receive() == ({"error": os.strerror(errno.EAGAIN)}, b"")


@pytest.mark.parametrize("op", REQUESTS)
def test_a_machine_without_descriptors_is_no_result(start_with, op):
    send, receive = start_with(leave_no_descriptor)
    send(op)
    assert receive() == ({"error": os.strerror(errno.EMFILE)}, b"")


@pytest.mark.parametrize("op", ["exec", "read"])
def test_processes_that_the_agent_used_up_are_ended(start_with, op):
    send, receive = start_with(leave_few_processes)
    send("exec", command="for i in $(seq 18); do sleep 99 & done")
    assert receive()[0]["exit_code"] == 0
    send("exec", command="exec sleep 99")
    send(op)
    assert receive()[0]["exit_code"] == 128 + signal.SIGKILL
    assert receive()[1] in (b"x\n", Path("/etc/passwd").read_bytes())
    send("exec", command=f"pgrep -c -u {STRANGER} sleep")
    assert receive()[1] == b"0\n"
