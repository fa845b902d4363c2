"""The supervisor at the wire, without any namespace: frames in, frames out."""

import multiprocessing
import os
import socket
import struct
import time
import warnings
from pathlib import Path

import pytest

from turnsmith.sandboxes.inside import kernel, processes, seccomp, wire
from turnsmith.sandboxes.inside.pipes import Pipe
from turnsmith.sandboxes.inside.supervisor import Supervisor
from turnsmith.sandboxes.inside.toolbox import environment, resource_limits, shell_setup, write_toolbox
from turnsmith.sandboxes.inside.wire import Limits

LIMITS = Limits(memory_bytes=128 << 20, num_processes=20, disk_bytes=1 << 20, output_bytes=1000)


def serve(connection, other_end, toolbox):
    warnings.simplefilter("default")  # a coverage tracer warns at its end of what the parent had imported
    other_end.close()
    kernel.adopt_orphans()
    Supervisor(connection, LIMITS, resource_limits(LIMITS, is_contained=False), toolbox).run()


@pytest.fixture
def ask(tmp_path):
    """Send a request to a supervisor in a process of its own; returns the answer."""
    write_toolbox(tmp_path / "toolbox", "/usr/bin/python3", shell_setup(LIMITS, is_contained=False))
    ours, theirs = socket.socketpair()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, ours, str(tmp_path / "toolbox")))
    process.start()
    theirs.close()
    ours.settimeout(30)

    def ask(op, payload=b"", **fields):
        variables = environment(str(tmp_path / "toolbox"), "/nowhere", str(tmp_path))
        wire.send(ours, {"id": 7, "op": op, "cwd": str(tmp_path), "timeout_s": 20, "env": variables, **fields}, payload)
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
    assert ask("write", b"content", path=f"{tmp_path}/new/file") == ({"id": 7, "errno": 0}, b"")
    assert ask("read", path=f"{tmp_path}/new/file") == ({"id": 7, "errno": 0}, b"content")
    assert ask("read", path=f"{tmp_path}/nowhere")[0]["errno"] == 2
    assert ask("read", path="nul\0")[0]["errno"] == 22


def test_together_they_may_not_use_more_memory_than_one_may(ask):
    hog = "python3 -c 'import time; x = bytearray(b\"x\") * (60 << 20); time.sleep(9)'"
    header, _ = ask("exec", command=f"for i in 1 2 3 4; do {hog} & done; wait")
    assert header["exit_code"] == 137 and not header["timed_out"]


def test_what_a_fork_bomb_leaves_is_swept(ask):
    ask("exec", command="for i in $(seq 15); do sleep 4321 & done")
    time.sleep(0.5)
    _, output = ask("exec", command="pgrep -c -x -f 'sleep 4321'")
    assert output == b"0\n"


def command_line(pid):
    """Nothing where the process, which may be anybody's, has ended since it was listed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_stop_answers_when_nobody_is_left(ask):
    ask("exec", command="(setsid sleep 4322 &)")
    assert ask("stop") == ({"id": 7}, b"")
    assert [p for p in processes._all_processes() if b"4322" in command_line(p.pid)] == []
    with pytest.raises(OSError):
        ask("read", path="/etc/passwd")
        ask("read", path="/etc/passwd")


@pytest.fixture
def outrun_once(monkeypatch):
    """The first attempt to end everyone ends nobody, as when processes multiply faster than they are counted."""

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
        message, descriptor = wire.receive_descriptor(theirs, 100)
        assert message == b"it" and not os.get_inheritable(descriptor)
        os.close(descriptor)
        ours.send(b"nothing")
        assert wire.receive_descriptor(theirs, 100) == (b"nothing", None)


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
    pipe.drain()
    assert (bytes(pipe.kept), pipe.truncated) == (b"0123456789", True)
    os.close(writing)
    assert not pipe.read()
    pipe.close()
    pipe.drain()


def run_filter(program, architecture, number):
    """A plain reading of classic BPF, for the four instructions that the filter uses."""
    data, accumulator, position = struct.pack("II", number, architecture), 0, 0
    while True:
        code, then, otherwise, value = struct.unpack("HBBI", program[position])
        position += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("I", data, value)[0]
        else:
            is_true = accumulator == value if code == 0x15 else accumulator >= value
            position += then if is_true else otherwise


def test_the_filter_fails_exactly_the_denied_calls():
    native, denied = 0xC000_003E, [29, 248, 319, 425]
    program = seccomp.make_filter(native, denied)
    for number in range(500):
        assert (run_filter(program, native, number) == 0x7FFF_0000) == (number not in denied)
    assert run_filter(program, native, 0x4000_0000 + 1) != 0x7FFF_0000
    assert run_filter(program, 0x4000_0003, 1) != 0x7FFF_0000
