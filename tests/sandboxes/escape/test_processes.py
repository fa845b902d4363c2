"""Processes of the host, and process 1, which serves the sandbox."""

import os
import signal
from pathlib import Path

from turnsmith.sandboxes.inside import wire

LOOK = """
found = []
for name in ("environ", "maps", "mem", "auxv", "fd", "root", "cwd", "exe", "map_files", "ns/mnt", "task/%s/environ" % pid):
    path = f"/proc/{pid}/{name}"
    for look in (os.listdir, os.readlink, lambda path: open(path, "rb").read(1), lambda path: os.open(path, os.O_RDWR)):
        if works(lambda: look(path)):
            found.append(name)
print(*sorted(set(found)))
"""


async def test_nothing_of_process_one_can_be_looked_at(inside):
    assert await inside(LOOK, pid=1) == ""
    command_line = await inside("print(open('/proc/1/cmdline').read())")
    assert command_line and str(Path(__file__).parents[3]) not in command_line
    own = (await inside(LOOK.replace("{pid}", "{os.getpid()}"), pid=1)).split()
    assert {"environ", "maps", "fd", "root", "cwd", "exe"} <= set(own)


async def test_a_process_of_the_host_can_neither_be_seen_nor_signalled(inside, outside, run, victim):
    code = """
    tell(look=lambda: os.stat(f"/proc/{pid}"), open=lambda: os.pidfd_open(pid))
    for number in (signal.SIGTERM, signal.SIGKILL):
        tell(kill=lambda: os.kill(pid, number), group=lambda: os.killpg(pid, number))
        tell(process=lambda: signal.pidfd_send_signal(os.pidfd_open(pid), number))
    """
    assert (await inside(code, pid=victim.pid)).split() == []
    await run("kill -9 -1")
    assert victim.poll() is None
    assert "kill" in outside(code, pid=victim.pid)
    assert victim.wait(5) == -signal.SIGTERM


TRACE = """
remote = ctypes.create_string_buffer(b"0123456789abcdef")
libc.ptrace.argtypes = [ctypes.c_long] * 4
pid = target
if not target:  # a child of our own
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
local = ctypes.create_string_buffer(16)
here = struct.pack("QQ", ctypes.addressof(local), 16)
there = struct.pack("QQ", ctypes.addressof(remote), 16)
SEIZE, ATTACH = 0x4206, 16
tell(
    read=lambda: call("process_vm_readv", pid, here, 1, there, 1, 0),
    write=lambda: call("process_vm_writev", pid, here, 1, there, 1, 0),
    descriptor=lambda: call("pidfd_getfd", os.pidfd_open(pid), 0, 0),
    compare=lambda: call("kcmp", os.getpid(), pid, 0, 0, 0),
    memory=lambda: open(f"/proc/{pid}/mem", "rb"),
    seize=lambda: libc.ptrace(SEIZE, pid, 0, 0),
    attach=lambda: libc.ptrace(ATTACH, pid, 0, 0),
)
print(*[line.split()[1] for line in open(f"/proc/{pid}/status") if line.startswith("TracerPid")])
if not target:
    os.kill(pid, signal.SIGKILL)
"""


async def test_process_one_can_be_neither_traced_nor_read_nor_robbed_of_descriptors(inside, outside, process_one):
    assert (await inside(TRACE, target=1)).split() == ["0"]
    assert "TracerPid:\t0\n" in Path(f"/proc/{process_one}/status").read_text()
    outside = outside(TRACE, target=0).split()
    assert {"descriptor", "read", "write"} <= set(outside) and outside[-1] != "0"


async def test_no_other_process_of_the_sandbox_can_be_traced_either(inside):
    assert (await inside(TRACE, target=0)).split() == ["memory", "0"]


HINDER = """
pid = target
if not target:
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
tell(
    **{f"limit_{kind}": lambda kind=kind: resource.prlimit(pid, kind, (9, 9)) for kind in (0, 2, 6, 7, 9)},
    policy=lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    attributes=lambda: call("sched_setattr", pid, struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0),
    cores=lambda: os.sched_setaffinity(pid, {0}),
    priority=lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
    input=lambda: libc.syscall(251, 1, pid, 3 << 13) if os.uname().machine == "x86_64" else -1,
)
if not target:
    os.kill(pid, signal.SIGKILL)
"""
"""Whoever is of the same user may do it, and process 1 is; slowed down enough, it would look like a fault of the machine."""


async def test_process_one_can_be_neither_limited_nor_slowed_down(inside, run, process_one):
    def look():
        shares = os.sched_getscheduler(process_one), os.getpriority(os.PRIO_PROCESS, process_one)
        return Path(f"/proc/{process_one}/limits").read_text(), *shares, os.sched_getaffinity(process_one)

    before = look()
    assert {"limit_7", "policy", "attributes", "cores", "priority"} <= set((await inside(HINDER, target=0)).split())
    assert await inside(HINDER, target=1) == ""
    assert await inside("tell(user=lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19))") == ""
    assert look() == before
    assert (await run("echo alive")).output == b"alive\n"


async def test_no_signal_stops_process_one(inside, run):
    code = """
    for number in sorted(set(range(1, 65)) - {32, 33}):
        works(lambda: os.kill(1, number))
        works(lambda: signal.pidfd_send_signal(os.pidfd_open(1), number))
        works(lambda: libc.syscall(234, 1, 1, number))
    """
    await inside(code)  # process 1 gets its signals before it can answer again
    assert (await run("echo alive")).output == b"alive\n"


async def test_answers_cannot_be_forged(run):
    frame = wire.pack(
        {"id": 0, "exit_code": 0, "duration_s": 0.0, "timed_out": False, "truncated": False, "cwd": "/"}, b"forged"
    )
    frames = b"".join(frame.replace(b'"id": 0', b'"id": %d' % number) for number in range(9))
    code = f"""
import contextlib, os
for fd in range(1024):
    with contextlib.suppress(OSError):
        os.write(fd, {frames!r} * 50)
"""
    result = await run("cat > forge.py; python forge.py; exit 3", stdin=code.encode())
    assert result.exit_code == 3 and result.output.replace(frames, b"") == b"" and result.output
    assert result.cwd == "/testbed"
    assert (await run("echo honest")).output == b"honest\n"
