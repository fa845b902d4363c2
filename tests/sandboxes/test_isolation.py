"""Limits of a local sandbox against hostile code. Escape attempts are in the folder `escape`."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from support.machine.host_processes import ancestor_in_sandbox, processes_named, wait_for, wait_until
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes import make_provider


@pytest.fixture
def kind():
    return "local"


async def python(run, code, **options):
    """Run Python code inside; returns its output as text."""
    result = await run("python -", stdin=textwrap.dedent(code).encode(), **options)
    return result.output.decode(errors="replace").strip()


async def test_there_is_no_network_but_itself(run):
    assert (await run("ls /sys/class/net 2>/dev/null; cat /proc/net/dev | grep -c :")).output == b"1\n"
    attempts = """
        import socket
        for address in [("1.1.1.1", 53), ("169.254.169.254", 80), ("10.0.0.1", 22)]:
            try:
                socket.create_connection(address, timeout=2)
            except OSError as error:
                print(error.strerror)
    """
    assert (await python(run, attempts)).splitlines() == ["Network is unreachable"] * 3
    itself = """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        socket.create_connection(server.getsockname(), timeout=2)
        print("connected")
    """
    assert await python(run, itself) == "connected"


async def test_no_other_process_is_in_sight(run):
    listing = (await run("ps ax -o pid= | wc -l; ls /proc | grep -c '^[0-9]'")).output.split()
    assert all(int(count) <= 6 for count in listing)
    assert (await run(f"kill -0 {os.getpid()}")).exit_code != 0


async def test_the_system_cannot_be_written(run):
    for path in (
        "/x",
        "/etc/passwd",
        "/usr/x",
        "/bin/x",
        "/opt/runtime/x",
        "/opt/turnsmith/shell.sh",
        "/proc/sys/kernel/hostname",
    ):
        result = await run(f"echo x >> {path}")
        assert result.exit_code != 0, path
    assert (await run("echo x > /dev/null && echo y > /tmp/y && echo z > /dev/shm/z")).exit_code == 0


async def test_a_fork_bomb_is_an_ordinary_result(run):
    result = await run(":(){ :|:& };:; sleep 9", timeout_s=1)
    assert result.exit_code != 0 or result.timed_out
    assert (await run("echo alive; ps ax | wc -l")).output.split()[0] == b"alive"


async def test_what_a_fork_bomb_leaves_behind_is_swept(run):
    await run(":(){ :|:& };:", timeout_s=2)
    count = "set -- /proc/[0-9]*; echo $#"  # without a fork, of which none may be left
    async with asyncio.timeout(60):
        while int((await run(count)).output) >= 10:
            await asyncio.sleep(0.1)


async def test_the_number_of_processes_is_limited(run):
    for timeout_s in (1, 10, 60):
        result = await run("for i in $(seq 200); do sleep 99 & done; wait", timeout_s=timeout_s)
        if result.output:
            break
    assert b"Resource temporarily unavailable" in result.output


async def test_a_memory_hog_is_an_ordinary_result(run):
    assert "MemoryError" in await python(run, "x = bytearray(300 << 20)")
    assert (await run("echo alive")).output == b"alive\n"


async def test_many_small_hogs_are_ended_together(run):
    hog = "python -c 'import time; x = bytearray(b\"x\") * (60 << 20); time.sleep(9)'"
    result = await run(f"for i in $(seq 8); do {hog} & done; wait", timeout_s=20)
    assert result.exit_code == 137
    assert not result.timed_out
    assert (await run("echo alive")).output == b"alive\n"


async def test_shared_memory_counts_too(run):
    code = """
        import mmap, time
        shared = mmap.mmap(-1, 500 << 20)
        for page in range(0, 500 << 20, 4096):
            shared[page] = 1
        print("got it")
    """
    assert "got it" not in await python(run, code)


async def test_the_disk_is_limited(run):
    result = await run("for i in 1 2 3 4; do head -c 40000000 /dev/zero > big$i || exit 5; done")
    assert (result.exit_code, b"No space left" in result.output) == (5, True)
    assert (await run("rm big*; echo back > back && cat back")).output == b"back\n"
    assert (
        await run(
            "head -c 40000000 /dev/zero > /tmp/a; head -c 40000000 /dev/zero > /dev/shm/b; head -c 40000000 /dev/zero > c"
        )
    ).exit_code


async def test_an_endless_loop_is_an_ordinary_timeout(run):
    assert (await run("while :; do :; done", timeout_s=0.3)).timed_out
    assert (await run("trap '' TERM INT HUP; while :; do :; done", timeout_s=0.3)).timed_out
    assert (await run("echo alive")).output == b"alive\n"


async def test_a_stopped_shell_is_an_ordinary_timeout(run):
    assert (await run("kill -STOP $$", timeout_s=0.3)).timed_out


async def test_a_daemon_is_gone_after_stop(run, sandbox):
    mark = f"{os.getpid()}{time.monotonic_ns() % 10**6}"
    await run(f"(setsid setsid sleep {mark} > /dev/null 2>&1 &)")
    await asyncio.to_thread(wait_until, lambda: processes_named(f"sleep {mark}"))
    await sandbox.stop()
    assert not processes_named(f"sleep {mark}")


async def test_the_death_of_process_one_is_a_sandbox_error(run, sandbox):
    mark = f"{os.getpid()}{time.monotonic_ns() % 10**6}"
    running = asyncio.create_task(run(f"sleep {mark}"))
    await asyncio.to_thread(wait_until, lambda: processes_named(f"sleep {mark}"))
    child = int(processes_named(f"sleep {mark}")[0])
    os.kill(ancestor_in_sandbox(child), signal.SIGKILL)
    with pytest.raises(SandboxError):
        await running
    with pytest.raises(SandboxError):
        await run("true")
    await sandbox.stop()


@pytest.mark.parametrize("kind", ["local", "subprocess"])
async def test_a_killed_host_leaves_nothing_that_the_next_start_does_not_remove(tmp_path, layers, kind, monkeypatch):
    mark = f"{os.getpid()}{time.monotonic_ns() % 10**6}"
    code = f"""
        import asyncio, os
        from pathlib import Path
        from turnsmith.config import SandboxConfig
        from turnsmith.sandboxes import make_provider
        from turnsmith.sandboxes.base import SandboxSpec

        async def main():
            provider = make_provider(SandboxConfig(kind="{kind}"))
            boxes = [await provider.start(SandboxSpec((Path({str(layers[0])!r}),))) for _ in range(3)]
            for box in boxes:
                await box.exec("(setsid sleep {mark} > /dev/null 2>&1 &)", timeout_s=60)
            if "{kind}" == "local" and os.fork() == 0:  # a child without exec keeps every socket open
                await asyncio.sleep(3600)
            print("ready", flush=True)
            await asyncio.gather(*(box.exec("sleep {mark}", timeout_s=60) for box in boxes))

        asyncio.run(main())
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    host = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=environment)
    assert host.stdout.readline() == b"ready\n"
    await asyncio.to_thread(wait_until, lambda: len(processes_named(f"sleep {mark}")) == 6)
    os.kill(host.pid, signal.SIGKILL)
    try:
        await asyncio.to_thread(wait_until, lambda: not processes_named(f"sleep {mark}"))
    finally:
        os.killpg(host.pid, signal.SIGKILL)
        host.stdout.close()
        host.wait()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with temporary_folder("next") as folder:
        assert list(temporary.glob("*/*")) == [folder]


async def test_nothing_is_held_after_stop(provider, spec, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_descriptors()
    for _ in range(5):
        sandbox = await provider.start(spec)
        await sandbox.exec("echo x > x", timeout_s=60)
        await sandbox.stop()
    await wait_for(lambda: open_descriptors() <= before)
    assert not list(tmp_path.glob("turnsmith-*/sandbox-*"))


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_copies_of_layers_stay_within_their_bound_and_live_while_they_are_used(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's layers are his own")
    code = f"""
        import os
        from pathlib import Path
        from turnsmith.sandboxes.inside.local.layers import Layers
        from turnsmith.sandboxes.inside.local.identity import Identity

        folder = Path("{tmp_path}")
        for name in "abc":
            (folder / name / "sub").mkdir(parents=True)
            (folder / name / "sub" / "file").write_bytes(name.encode() * (1 << 20))
        (folder / "copies").mkdir()
        layers = Layers(Identity(1234, 1234, True), folder / "copies", max_bytes=5 << 19)
        used = os.open(layers.copy(str(folder / "b")), os.O_RDONLY)
        first = layers.copy(str(folder / "a"))
        layers.copy(str(folder / "c"))
        assert [str(folder / name) in layers.copies for name in "abc"] == [True, False, True]
        assert layers.copy(str(folder / "a")) == first
        layers.copy(str(folder / "b"))
        assert [str(folder / name) in layers.copies for name in "abc"] == [True, True, False]
        assert len(list((folder / "copies").iterdir())) == 2
        assert os.stat("sub/file", dir_fd=used).st_size == 1 << 20
        assert os.stat("sub/file", dir_fd=used).st_uid == 1234
        try:
            layers.copy(str(folder / "nowhere"))
        except OSError:
            pass
        else:
            raise AssertionError("a missing layer was copied")
        assert len(list((folder / "copies").iterdir())) == 2
    """
    run_as_spawner(code)


def test_a_copy_of_a_layer_opens_no_pipe_and_no_device(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's layers are his own")
    run_as_spawner(f"""
        import os, stat
        from pathlib import Path
        from turnsmith.sandboxes.inside.local.layers import Layers
        from turnsmith.sandboxes.inside.local.identity import Identity

        (layer := Path("{tmp_path}/layer")).mkdir()
        (layer / "file").write_text("text")
        (layer / "link").symlink_to("file")
        os.mkfifo(layer / "pipe")
        os.mknod(layer / "zeros", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        os.mknod(layer / "hidden", stat.S_IFCHR, 0)
        (folder := Path("{tmp_path}/copies")).mkdir()
        copy = Path(Layers(Identity(1234, 1234, True), folder).copy(str(layer)))
        assert sorted(path.name for path in copy.iterdir()) == ["file", "hidden", "link"]
        assert (copy / "link").read_text() == "text"
        assert stat.S_ISCHR((copy / "hidden").lstat().st_mode) and (copy / "hidden").lstat().st_rdev == 0
    """)


def run_as_spawner(code):
    """Run Python in a mount namespace of its own."""
    command = ["unshare", "--mount", sys.executable, "-c", textwrap.dedent(code)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr


async def test_a_layer_whose_files_cannot_be_shown_as_anothers_is_copied(tmp_path):
    """As root in a container, whose own file system is an overlay."""
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's layers are his own")
    for name in ("lower/pkg", "upper", "work", "merged"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lower" / "pkg" / "a.py").write_text("x = 1\n")
    code = f"""
        import asyncio
        from pathlib import Path
        from turnsmith.config import SandboxConfig
        from turnsmith.sandboxes import make_provider
        from turnsmith.sandboxes.base import SandboxSpec

        async def main():
            provider = make_provider(SandboxConfig())
            for _ in range(2):
                box = await provider.start(SandboxSpec((Path("{tmp_path}/merged"),)))
                result = await box.exec("echo y >> pkg/a.py; stat -c %U pkg pkg/a.py", timeout_s=60)
                print(result.output, await box.diff())
            await provider.close()

        asyncio.run(main())
    """
    script = f'cd {tmp_path} && mount -t overlay o -o lowerdir=lower,upperdir=upper,workdir=work merged && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", textwrap.dedent(code)]
    finished = subprocess.run(command, capture_output=True, text=True)
    if "mount:" in finished.stderr:
        pytest.skip(f"no overlay on this file system: {finished.stderr}")
    assert finished.stdout.count("b'agent\\nagent\\n'") == 2, finished
    assert finished.stdout.count("+y\n") == 2


async def test_a_hidden_folder_below_usr_is_empty_in_every_sandbox(provider, spec):
    own = make_provider(SandboxConfig(kind="local", hidden=["/usr/share"]))
    try:
        sandbox = await own.start(spec)
        assert (await sandbox.exec("ls -A /usr/share | wc -l; ls -A /usr/bin | wc -l", timeout_s=20)).output[
            :2
        ] == b"0\n"
        assert (await sandbox.exec("touch /usr/share/x", timeout_s=20)).exit_code != 0
    finally:
        await own.close()
