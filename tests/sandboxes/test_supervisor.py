"""Supervisor at the wire level, without namespaces."""

import errno
import multiprocessing
import os
import signal
import socket
import struct
import warnings
from pathlib import Path

import pytest

from support.machine.host_processes import wait_until
from turnsmith.sandboxes.inside import kernel, privileges, processes, wire
from turnsmith.sandboxes.inside.command import Pipe
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.toolbox import environment, resource_limits, shell_setup, write_toolbox
from turnsmith.sandboxes.inside.wire import Limits

LIMITS = Limits(memory_bytes=128 << 20, num_processes=20, disk_bytes=1 << 20, output_bytes=1000)


def serve(connection, other_end, toolbox):
    warnings.simplefilter("default")  # a coverage tracer warns at its end of what the parent had imported
    other_end.close()
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    Supervisor(connection, LIMITS, resource_limits(LIMITS, has_own_processes=False), toolbox).run()


@pytest.fixture
def ask(tmp_path):
    """Send a request to a supervisor in a separate process and return its answer."""
    write_toolbox(
        tmp_path / "toolbox", "/usr/bin/python3", shell_setup(resource_limits(LIMITS, has_own_processes=False))
    )
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, ours, str(tmp_path / "toolbox")))
    process.start()
    theirs.close()
    ours.settimeout(30)

    def ask(op, payload=b"", **fields):
        variables = environment(str(tmp_path / "toolbox"), "/nowhere", str(tmp_path))
        standard = {"cwd": str(tmp_path), "timeout_s": 20, "env": variables}
        wire.send(ours, {"id": 7, "op": op, **standard, **fields}, payload)
        answer = wire.receive(ours)
        assert answer is None or answer[0]["id"] == 7
        return answer

    yield ask
    ours.close()
    process.join(10)
    assert process.exitcode == 0
    process.close()


def test_a_command_is_answered_with_all_that_it_left(ask, tmp_path):
    header, output = ask("exec", b"in", command="cat; cd /usr; exit 3")
    assert (output, header["exit_code"], header["cwd"]) == (b"in", 3, "/usr")
    header, output = ask("exec", bytes(100_000), command="wc -c; yes | head -c 5000")
    assert output.startswith(b"100000\n") and len(output) == 1000 and header["truncated"]
    header, _ = ask("exec", command="sleep 9", timeout_s=0.2)
    assert (header["timed_out"], header["exit_code"], header["cwd"]) == (True, 137, str(tmp_path))
    header, output = ask("exec", command="true", cwd="/nowhere")
    assert header["exit_code"] == 126 and b"No such file" in output


def test_files_are_answered_with_an_error_number(ask, tmp_path):
    assert access(ask, "write", f"{tmp_path}/new/file", b"content" * 1000) == (0, b"")
    assert access(ask, "read", f"{tmp_path}/new/file") == (0, b"content" * 1000)
    assert access(ask, "read", f"{tmp_path}/nowhere") == (errno.ENOENT, b"")
    assert access(ask, "read", "nul\0") == (errno.EINVAL, b"")


def access(ask, op, path, content=b""):
    header, payload = ask(op, content, path=path)
    return header["exit_code"], payload


def test_together_they_may_not_use_more_memory_than_one_may(ask):
    hog = "python3 -c 'import time; x = bytearray(b\"x\") * (60 << 20); time.sleep(9)'"
    header, _ = ask("exec", command=f"for i in 1 2 3 4; do {hog} & done; wait")
    assert header["exit_code"] == 137 and not header["timed_out"]


def test_what_a_fork_bomb_leaves_is_swept(ask):
    ask("exec", command="for i in $(seq 15); do sleep 4321 & done")
    wait_until(lambda: ask("exec", command="pgrep -c -x -f 'sleep 4321'")[1] == b"0\n")


def command_line(pid):
    """Return the command line of a process; empty if it has ended since it was listed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_stop_answers_when_nobody_is_left(ask):
    ask("exec", command="(setsid sleep 4322 &)")
    assert ask("stop") == ({"id": 7}, b"")
    names = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
    assert [pid for pid in names if b"4322" in command_line(pid)] == []
    with pytest.raises(OSError):
        ask("read", path="/etc/passwd")
        ask("read", path="/etc/passwd")


@pytest.fixture
def outrun_once(monkeypatch):
    """Make the first attempt to kill all processes fail, as if they multiplied faster."""

    class NumSweeps:
        left = iter([0])

        def __index__(self):
            return next(self.left, 200)

    monkeypatch.setattr(processes, "MAX_SWEEPS", NumSweeps())


def test_stop_tries_again_where_somebody_outran_it(outrun_once, ask):
    ask("exec", command="(setsid sleep 43 &)")
    assert ask("stop") == ({"id": 7}, b"")


def test_a_process_that_ended_while_it_was_read_counts_as_gone(tmp_path):
    (tmp_path / "stat").touch()
    with pytest.raises(ProcessLookupError):
        processes._content(str(tmp_path / "stat"))


def test_a_received_descriptor_is_not_inherited():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"it"], [0])
        message, [descriptor] = wire.receive_descriptors(theirs)
        assert message == b"it" and not os.get_inheritable(descriptor)
        os.close(descriptor)
        ours.send(b"nothing")
        assert wire.receive_descriptors(theirs) == (b"nothing", [])


def test_frames_of_any_length_pass_whole():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire.send(ours, {"name": "ü"}, b"\0" * 50_000)
        assert wire.receive(theirs) == ({"name": "ü"}, b"\0" * 50_000)
        ours.sendall(wire.pack({"half": 1})[:-1])
        ours.close()
        assert wire.receive(theirs) is None


def test_a_pipe_keeps_its_limit_and_never_holds_up_a_writer(tmp_path):
    reading, writing = os.pipe()
    pipe = Pipe(reading, limit=10)
    os.write(writing, b"0123456")
    assert pipe.read() and not pipe.truncated
    os.write(writing, b"789abc")
    assert (pipe.finish(), pipe.truncated) == (b"0123456789", True)
    os.close(writing)
    assert not pipe.read()
    pipe.close()
    assert pipe.finish() == b""


def run_filter(program, number, *arguments, architecture=0xC000_003E):
    """Interpret the filter's classic BPF instructions. Return the error number, or 0 if the call is allowed."""
    data = struct.pack("IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    accumulator, position = 0, 0
    holds = {0x15: lambda value: accumulator == value, 0x25: lambda value: accumulator > value,
             0x45: lambda value: accumulator & value}  # fmt: skip
    while True:
        code, then, otherwise, value = struct.unpack("HBBI", program[position])
        position += 1
        if code == 0x06:
            return 0 if value == 0x7FFF_0000 else value - 0x5_0000
        if code == 0x20:
            accumulator = struct.unpack_from("I", data, value)[0]
        else:
            position += then if holds[code](value) else otherwise


def test_the_filter_fails_exactly_the_denied_calls():
    program = privileges.make_filter("x86_64")
    unknown, forbidden = {29, 64, 68, 206, 319, 425, 435}, {101, 165, 272, 310, 438}
    unknown |= {27, 221, 327, 451}  # what is said of cached pages
    assert all(run_filter(program, number) == errno.ENOSYS for number in unknown)
    assert all(run_filter(program, number) == errno.EPERM for number in forbidden)
    denied = [number for number in range(470) if run_filter(program, number, socket.AF_INET6)]
    assert len(denied) == len(privileges._UNKNOWN) + len(privileges._FORBIDDEN) and unknown | forbidden < set(denied)
    for number in (470, 1000, 0x4000_0000 + 1, 0xFFFF_FFFF):
        assert run_filter(program, number) == errno.ENOSYS
    assert run_filter(program, 1, architecture=0x4000_0003) == errno.ENOSYS


def test_the_filter_reads_what_a_call_asks_for():
    program = privileges.make_filter("x86_64")
    clone, sockets, prlimit, setpriority, getsockopt = 56, (41, 53), 302, 141, 55
    assert run_filter(program, clone, signal.SIGCHLD) == run_filter(program, clone, 0x3D_0F00) == 0
    assert run_filter(program, clone, kernel.CLONE_NEWUSER | signal.SIGCHLD) == errno.EPERM
    for call in sockets:
        allowed = [family for family in range(50) if not run_filter(program, call, family, 1, 0)]
        assert allowed == [socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK]
        assert run_filter(program, call, socket.AF_NETLINK, 3, 15) == errno.EAFNOSUPPORT
        assert run_filter(program, call, (1 << 32) | socket.AF_VSOCK) == errno.EAFNOSUPPORT
    assert run_filter(program, prlimit, 0, 7) == run_filter(program, prlimit, 55, 7) == 0
    assert run_filter(program, prlimit, 1, 7) == errno.EPERM
    assert run_filter(program, getsockopt, 3, socket.SOL_SOCKET, 57) == errno.ENOPROTOOPT
    assert run_filter(program, getsockopt, 3, socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert run_filter(program, getsockopt, 3, socket.IPPROTO_TCP, 57) == 0
    assert run_filter(program, setpriority, 0, 55) == 0
    assert run_filter(program, setpriority, 0, 1) == run_filter(program, setpriority, 2, 1000) == errno.EPERM


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_no_jump_of_the_filter_leads_out_of_it(machine):
    program = [struct.unpack("HBBI", step) for step in privileges.make_filter(machine)]
    for position, (code, then, otherwise, _) in enumerate(program):
        assert code == 0x06 or position + 1 + max(then, otherwise) < len(program)
    assert program[-1][0] == 0x06


def test_what_another_reader_has_taken_from_a_pipe_is_not_waited_for():
    reading, writing = os.pipe()
    thief = os.open(f"/proc/self/fd/{reading}", os.O_RDONLY)
    pipe = Pipe(reading, 100)
    os.write(writing, b"one")
    assert os.read(thief, 100) == b"one"
    assert pipe.read()
    os.write(writing, b"two")
    assert pipe.read() and pipe.finish() == b"two"
    os.close(writing)
    assert not pipe.read()
    pipe.close()
    os.close(thief)


def test_what_was_opened_for_a_command_that_cannot_start_is_closed(ask, tmp_path):
    supervisor = int(ask("exec", command="echo $PPID")[1])
    before = set(Path(f"/proc/{supervisor}/fd").iterdir())
    for _ in range(3):
        assert ask("exec", bytes(100_000), command="x", env={"A": "\0"})[0]["exit_code"] == 126
    assert set(Path(f"/proc/{supervisor}/fd").iterdir()) <= before
