"""Resource exhaustion in one sandbox must not affect siblings or the host; some kernel limits count per user."""

import asyncio
import os
import resource
from pathlib import Path

import pytest

from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider


async def test_processes_used_up_are_not_missing_elsewhere(run, beside):
    await run("for i in $(seq 200); do sleep 30 & done 2> /dev/null", timeout_s=3)
    children = "import subprocess\nprint(sum(c.wait() for c in [subprocess.Popen('true') for _ in range(20)]))"
    assert await beside(children) == "0"


FILL = """
with contextlib.suppress(OSError):
    for number in range(10**6):
        open(f"/tmp/{number}", "w").close()
with contextlib.suppress(OSError):
    with open("/testbed/big", "wb") as file:
        while True:
            file.write(bytes(1 << 20))
tell(file=lambda: open("/dev/shm/more", "w").close())
"""


async def test_files_and_bytes_used_up_are_not_missing_elsewhere(inside, beside, tmp_path):
    free = os.statvfs(tmp_path)
    assert await inside(FILL) == ""
    assert os.statvfs(tmp_path).f_bavail > free.f_bavail * 0.9 and os.statvfs(tmp_path).f_favail > free.f_favail * 0.9
    assert await beside("tell(file=lambda: open('/tmp/more', 'w').write('x' * 10**6))") == "file"


PIPES = """
reading, writing = os.pipe()
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        pipes = []
        with contextlib.suppress(OSError):
            while True:
                pipes.append(os.pipe())
        os.write(writing, b".")
        time.sleep(60)
for _ in range(5):
    os.read(reading, 1)
print(fcntl.fcntl(os.pipe()[0], fcntl.F_GETPIPE_SZ))
"""


async def test_room_in_pipes_used_up_does_not_hang_a_sibling(provider, inside, spec):
    """Past a bound per user the kernel gives only small pipes; whoever fills one without a reader waits for ever."""
    assert int(await inside(PIPES)) < 1 << 16
    sibling = await asyncio.wait_for(provider.start(spec), 60)
    result = await asyncio.wait_for(sibling.exec("wc -c", stdin=b"x" * 60_000, timeout_s=60), 90)
    assert result.output == b"60000\n"


FLY = """
ends, number = [], 0
with contextlib.suppress(OSError):
    while number < 20_000:
        sender, receiver = socket.socketpair()
        ends.append(receiver)
        socket.send_fds(sender, [b"."], [0] * 253)
        sender.close()
        number += 253
print(number, flush=True)
stay()
"""


async def test_descriptors_in_flight_do_not_keep_a_sibling_from_starting(spec, inside_of):
    """Past a limit per user no descriptor can be sent, and a new sandbox sends one to the host."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))  # as on most machines
    try:
        provider = make_provider(SandboxConfig())
        inside = inside_of(await provider.start(spec))
        assert int(await inside(FLY)) > 1024
        sibling = await provider.start(spec)
        assert (await sibling.exec("echo alive", timeout_s=60)).output == b"alive\n"
        await provider.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


WATCH = """
watchers = []
for _ in range(500):
    watcher = libc.inotify_init()
    if watcher < 0:
        break
    watchers.append(watcher)
print(len(watchers), flush=True)
stay()
"""


async def test_watchers_of_files_used_up_are_not_missing_elsewhere(inside, beside, outside):
    assert 0 < int(await inside(WATCH)) < int(Path("/proc/sys/fs/inotify/max_user_instances").read_text()) / 4
    assert int(await beside("print(libc.inotify_init())")) > 0
    assert int(outside("print(libc.inotify_init())")) > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's sandboxes are his own")
async def test_all_sandboxes_together_leave_watchers_to_the_root_by_root(provider, spec, inside_of, outside):
    for _ in range(20):
        await inside_of(await provider.start(spec))(WATCH)
    assert int(outside("print(libc.inotify_init())")) > 0


async def test_requests_of_all_that_read_and_write_at_once_are_not_used_up(inside):
    ask = "sum(call('io_setup', 1_000, ctypes.byref(ctypes.c_ulong(0))) == 0 for _ in range(100))"
    assert 1_000 * int(await inside(f"print({ask})")) < int(Path("/proc/sys/fs/aio-max-nr").read_text()) / 4


PILE_UP = """
size = sum(32_000 * 64 for _ in range(20) if call("semget", 0, 32_000, 0o1600) >= 0)
for _ in range(1_000):
    queue = call("msgget", 0, 0o1600)
    while queue >= 0 and libc.msgsnd(queue, struct.pack("q8000s", 1, b""), 8_000, 0o4000) == 0:
        size += 8_000
print(size)
"""


async def test_kernel_objects_that_count_nowhere_are_not_piled_up(inside, as_root_outside):
    assert int(as_root_outside(PILE_UP)) > 50 << 20
    assert int(await inside(PILE_UP)) < 10 << 20


LOCK = "import fcntl, time; file = open('/usr/bin/env'); fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
HOLD = f"""python -c "{LOCK}; print('held', flush=True); time.sleep(60)" > held 2>&1 & until [ -s held ]; do :; done; cat held"""


async def test_a_sibling_sees_no_locks_of_files_below_usr(provider, spec):
    first, second = [await provider.start(spec) for _ in range(2)]
    assert (await first.exec(HOLD, timeout_s=20)).output == b"held\n"
    tries = [await sandbox.exec(f'python -c "{LOCK}"', timeout_s=20) for sandbox in (first, second)]
    assert [tried.exit_code for tried in tries] == [1, 0], tries


LISTEN = """
import ctypes, os, time
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, b"/usr/bin", 0x20) > 0  # who opens something in the folder
print("watching", flush=True)
while not os.path.exists("done"):
    time.sleep(0.01)
try:
    print("seen" if b"cksum" in os.read(watch, 4096) else "unseen", flush=True)
except BlockingIOError:
    print("unseen", flush=True)
"""
BEGIN = "rm -f said done; python watch.py > said 2>&1 & until [ -s said ]; do :; done"
END = "touch done; until [ $(wc -l < said) = 2 ]; do :; done; tail -n 1 said"


async def test_a_sibling_sees_nobody_open_files_below_usr(provider, spec):
    watching, other = [await provider.start(spec) for _ in range(2)]
    await watching.write("watch.py", LISTEN.encode())
    for opener, expected in ((other, b"unseen\n"), (watching, b"seen\n")):
        await watching.exec(BEGIN, timeout_s=20)
        await opener.exec("read -r -n 1 _ < /usr/bin/cksum", timeout_s=20)
        assert (await watching.exec(END, timeout_s=20)).output == expected
