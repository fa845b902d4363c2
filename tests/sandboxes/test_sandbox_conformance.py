"""Conformance tests of the sandbox protocol, for every kind."""

import asyncio
import contextlib
import errno
import hashlib
import os
import random
import resource
import tempfile
import threading
from pathlib import Path

import pytest

from support.machine.host_processes import wait_for
from turnsmith.errors import SandboxError
from turnsmith.sandboxes.inside.toolbox import CWD_FD, REPORT_FD
from turnsmith.sandboxes.launch import finish_in_thread
from turnsmith.types import Isolation


async def test_the_tier_of_isolation_that_was_obtained_is_named(sandbox, provider, kind):
    is_root = os.geteuid() == 0
    tiers = {
        "local": "namespaces-root" if is_root else "namespaces-user",
        "podman": "container-user",
        "subprocess": "none",
    }
    assert sandbox.isolation == provider.isolation == tiers.get(kind, Isolation(provider.isolation))


async def test_exec_returns_exit_code_and_merged_output_in_order(run):
    result = await run("echo one; echo two >&2; echo three; exit 7")
    assert (result.exit_code, result.output) == (7, b"one\ntwo\nthree\n")
    assert not result.timed_out and not result.truncated
    assert result.duration_s > 0


async def test_a_signal_is_128_plus_its_number(run):
    assert (await run("kill -9 $$")).exit_code == 137
    assert (await run("bash -c 'kill -TERM $$'")).exit_code == 143


async def test_a_closed_pipe_ends_a_writer_as_in_any_shell(run):
    assert (await run("yes | head -1; echo ${PIPESTATUS[0]}")).output == b"y\n141\n"


@pytest.mark.parametrize("size", [0, 3, 65_536, 65_537, 3_000_000])
async def test_stdin_arrives_whole_and_ends(run, size):
    content = random.Random(0).randbytes(size)
    result = await run("sha256sum", stdin=content)
    assert result.output.decode().split()[0] == hashlib.sha256(content).hexdigest()


async def test_output_is_bytes_and_may_be_megabytes(run):
    assert (await run(r"printf '\000\377\n'")).output == b"\x00\xff\n"
    assert len((await run("head -c 900000 /dev/zero")).output) == 900_000


async def test_output_beyond_the_limit_is_dropped_and_said_so(run):
    result = await run("head -c 5000000 /dev/zero; exit 3")
    assert (len(result.output), result.truncated, result.exit_code) == (1_000_000, True, 3)


async def test_a_timeout_ends_everything_that_the_command_started(run, run_out_of_time):
    result = await run_out_of_time("sleep 7654 & setsid sleep 7654 & echo begun; sleep 7654", b"begun\n")
    assert result.exit_code == 137
    assert b"sleep 7654" not in (await run("ps axww -o args | grep -v grep")).output


async def test_an_endless_output_is_an_ordinary_timeout(run, run_out_of_time):
    assert (await run_out_of_time("yes", b"y\n" * 500_000)).truncated
    assert (await run("echo alive")).output == b"alive\n"


async def test_the_directory_in_which_the_shell_ended_is_reported(run):
    assert (await run("pwd", cwd="pkg")).cwd == "/testbed/pkg"
    result = await run("cd pkg; cd sub; (cd /)")
    assert result.cwd == "/testbed/pkg/sub"
    assert (await run("ls", cwd=result.cwd)).output == b"c.py\n"
    assert (await run("cd /usr; false")).cwd == "/usr"
    assert (await run("cd pkg; exit 4")).cwd == "/testbed/pkg"


async def test_a_directory_that_cannot_be_reported_is_the_one_of_the_beginning(run):
    assert (await run("cd /usr; kill -9 $$", cwd="/testbed/pkg")).cwd == "/testbed/pkg"
    assert (await run("mkdir gone; cd gone; rmdir ../gone")).cwd == "/testbed"
    assert (await run("trap - EXIT; printf '/no\\0where' >&250")).cwd == "/testbed"
    assert (await run("trap - EXIT; head -c 9000 /dev/zero | tr '\\0' / >&250")).cwd == "/testbed"


async def test_a_command_that_cannot_start_is_an_ordinary_result(run):
    assert (await run("ls", cwd="/testbed/nowhere")).exit_code == 126
    assert (await run("echo " + "x" * 200_000)).exit_code == 126
    assert (await run("echo \0")).exit_code == 126
    assert (await run("if then fi")).exit_code == 2
    assert (await run("no-such-program")).exit_code == 127


async def test_unicode_and_spaces_in_names(run, sandbox):
    await sandbox.write("größe/süß 1.txt", "naïve\n".encode())
    assert (await run("cat 'größe/süß 1.txt'")).output.decode() == "naïve\n"
    assert await sandbox.read("größe/süß 1.txt") == "naïve\n".encode()


async def test_commands_run_beside_each_other_in_one_sandbox(run):
    results = await asyncio.gather(*(run(f"sleep 0.{n}; echo {n}") for n in range(8)))
    assert [result.output for result in results] == [b"%d\n" % n for n in range(8)]


async def test_the_timeout_of_one_command_spares_the_others(run):
    slow, overdue = await asyncio.gather(run("sleep 1; echo whole"), run("sleep 9", timeout_s=0.2))
    assert overdue.timed_out
    assert slow.output == b"whole\n"


async def test_a_background_process_outlives_its_command_but_not_the_sandbox(run):
    await run("touch ticks; (while sleep 0.05; do echo tick; echo x >> ticks; done) &")
    await run("while [ $(wc -l < ticks) -lt 3 ]; do sleep 0.05; done")
    assert int((await run("wc -l < ticks")).output) >= 3


async def test_the_environment_is_small_and_the_hosts_secrets_are_absent(run, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "hunter2")
    names = {line.split("=")[0] for line in (await run("env")).output.decode().splitlines()}
    assert {"PATH", "HOME", "LANG", "PYTHONHASHSEED", "TZ"} <= names
    assert not names & {"API_TOKEN", "BASH_ENV", "LD_PRELOAD", "SSH_AUTH_SOCK"}
    assert (await run("echo $A$B", env={"A": "x", "B": "y"})).output == b"xy\n"
    assert (await run("cd /usr", env={"BASH_ENV": "/nowhere"})).cwd == "/usr"


async def test_a_command_holds_its_streams_and_its_reports_and_nothing_else(run):
    code = """
import os
for fd in range(1024):
    try:
        os.fstat(fd)
        print(fd)
    except OSError:
        pass
"""
    result = await run(f"python -c '{code}'")
    assert list(map(int, result.output.split())) == [0, 1, 2, CWD_FD, REPORT_FD]


async def test_layers_are_stacked_and_stay_as_they_are(run, layers):
    assert (await run("cat pkg/a.py new.txt README link")).output == b"x = 3\nfrom the second layer\nhello\nx = 3\n"
    await run("echo changed > pkg/a.py; rm README; rm -rf pkg/sub; echo more >> new.txt")
    assert (layers[1] / "pkg" / "a.py").read_text() == "x = 3\n"
    assert (layers[0] / "README").read_text() == "hello\n"
    assert (layers[0] / "pkg" / "sub" / "c.py").exists()


async def test_files_are_read_and_written_as_they_are(sandbox, run):
    content = bytes(range(256)) * 1000
    await sandbox.write("/testbed/deep/er/file", content)
    assert await sandbox.read("deep/er/file") == content
    await sandbox.write("deep/er/file", b"")
    assert await sandbox.read("/testbed/deep/er/file") == b""
    await sandbox.write("link", b"through the link\n")
    assert await sandbox.read("pkg/a.py") == b"through the link\n"
    assert (await run("stat -c %a deep/er/file")).output == b"644\n"


async def test_large_files_pass_and_larger_ones_say_so(sandbox, run):
    content = b"0123456789abcdef" * (1 << 20)
    await sandbox.write("large", content)
    assert await sandbox.read("large") == content
    await run("truncate -s 65M sparse")
    for use in (sandbox.read("sparse"), sandbox.write("larger", bytes((64 << 20) + 1))):
        with pytest.raises(OSError, match="64 MB") as refused:
            await use
        assert refused.value.errno == errno.EFBIG


async def test_the_errors_of_reading_and_writing(sandbox, run):
    await run("mkfifo pipe; touch locked")
    with pytest.raises(FileNotFoundError):
        await sandbox.read("nowhere")
    with pytest.raises(IsADirectoryError):
        await sandbox.read("pkg")
    with pytest.raises(IsADirectoryError):
        await sandbox.write("pkg", b"")
    with pytest.raises(PermissionError):
        await sandbox.read("pipe")
    with pytest.raises(OSError):
        await sandbox.write("README/below", b"")
    with pytest.raises(OSError):
        await sandbox.read("nul\0byte")
    with pytest.raises(PermissionError):
        await sandbox.read("/dev/zero")


async def test_pytest_runs_by_every_name_and_sees_only_its_own_packages(run, sandbox):
    await sandbox.write("tests/test_it.py", b"def test_a(): pass\ndef test_b(): assert 0\n")
    for name in ("python -m pytest", "python3 -m pytest", "pytest"):
        result = await run(f"{name} -rA --color=no -p no:cacheprovider tests")
        assert result.exit_code == 1, result.output
        assert b"PASSED tests/test_it.py::test_a" in result.output
        assert b"FAILED tests/test_it.py::test_b" in result.output
        assert b"plugins:" not in result.output
    assert (await run("find . -name '*.pyc'")).output == b""


async def test_stop_is_safe_twice_and_final(sandbox, run):
    await asyncio.gather(sandbox.stop(), sandbox.stop())
    await sandbox.stop()
    for use in (run("true"), sandbox.read("README"), sandbox.write("x", b""), sandbox.diff()):
        with pytest.raises(SandboxError):
            await use


async def test_stop_interrupts_what_runs(sandbox, run):
    running = asyncio.create_task(run("touch begun; sleep 7655"))
    await run("until [ -e begun ]; do sleep 0.01; done")
    await sandbox.stop()
    with pytest.raises(SandboxError):
        await running


async def test_closing_the_provider_stops_its_sandboxes(own_provider, spec):
    sandbox = await own_provider.start(spec)
    await own_provider.close()
    with pytest.raises(SandboxError):
        await sandbox.exec("true", timeout_s=60)


async def test_sixteen_sandboxes_at_once_do_not_see_each_other(provider, spec):
    sandboxes = await asyncio.gather(*(provider.start(spec) for _ in range(16)))
    await asyncio.gather(*(box.write("mine", b"%d" % n) for n, box in enumerate(sandboxes)))
    results = await asyncio.gather(*(box.exec("cat mine", timeout_s=30) for box in sandboxes))
    assert [int(result.output) for result in results] == list(range(16))
    await asyncio.gather(*(box.stop() for box in sandboxes))


async def test_a_layer_that_is_not_there_is_a_sandbox_error(provider, spec, tmp_path):
    with pytest.raises(SandboxError, match="could not start"):
        await provider.start(type(spec)((tmp_path / "nowhere",)))
    sandbox = await provider.start(spec)
    assert (await sandbox.exec("cat README", timeout_s=60)).output == b"hello\n"


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return a separate folder for temporary folders of this test."""
    (folder := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextlib.contextmanager
def no_free_descriptor():
    """Every operation that needs a file descriptor fails with EMFILE."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_host_without_free_descriptors_is_a_sandbox_error(provider, spec, temporary):
    sandbox = await provider.start(spec)
    present = list(temporary.glob("*/*"))
    await sandbox.write("README", b"other\n")
    with no_free_descriptor():
        with pytest.raises(SandboxError, match=r"could not start: .*Too many open files"):
            await provider.start(spec)
        with pytest.raises(SandboxError, match=r"cannot take a diff: .*Too many open files"):
            await sandbox.diff()
    assert "+other\n" in await sandbox.diff()
    assert list(temporary.glob("*/*")) == present


async def test_a_temporary_folder_that_is_gone_is_a_sandbox_error(sandbox, run, temporary):
    await run("echo more >> README")
    temporary.rmdir()
    with pytest.raises(SandboxError, match=r"cannot take a diff: .*No such file"):
        await sandbox.diff()


async def test_who_is_cancelled_waits_for_what_a_thread_still_does():
    begun, may_end, done = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        may_end.wait(9)
        done.append(True)

    working = asyncio.create_task(finish_in_thread(work))
    await asyncio.to_thread(begun.wait)
    working.cancel()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert done


async def test_a_locked_tree_goes_with_its_sandbox(own_provider, spec, tmp_path, temporary):
    """The tree is removed whoever starts the sandbox, and targets of links keep their mode."""
    (outside := tmp_path / "outside").mkdir(mode=0o755)
    sandbox = await own_provider.start(spec)
    await sandbox.exec(
        f"ln -s {outside} out; mkdir -p a/b/c; chmod 000 a/b; chmod 444 a pkg; chmod 000 .", timeout_s=60
    )
    await own_provider.close()
    assert not list(temporary.glob("*/*"))
    assert outside.stat().st_mode & 0o777 == 0o755


async def test_a_cancelled_start_leaves_nothing(own_provider, spec, temporary):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for delay_s in (0, 0.001, 0.005, 0.02):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(delay_s):
                await own_provider.start(spec)
                await asyncio.sleep(9)
    await own_provider.close()
    await wait_for(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)
    assert not list(temporary.glob("*/*"))


async def test_a_report_is_apart_from_the_output(run):
    script = f"echo seen; head -c 300000 /dev/zero >&{REPORT_FD}; echo end"
    reported = await run(script)
    assert reported.output == b"seen\nend\n"
    assert reported.report == bytes(300_000)
