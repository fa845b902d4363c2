"""Snapshots, restores and forks: the files of one moment, for many, and nothing that runs."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from turnsmith.errors import SandboxError
from turnsmith.sandboxes import local

LISTING = r"""
find . ! -name . -printf '%y %m %P %l\n' | sort
find . -type f -print0 | sort -z | xargs -0 -r sha256sum
"""


async def output_of(sandbox, command, cwd=None):
    result = await sandbox.exec(command, timeout_s=30, cwd=cwd)
    assert result.exit_code == 0, result.output
    return result.output


async def test_a_fork_has_the_files_and_the_patch_of_its_parent(sandbox):
    await output_of(sandbox, "echo more >> README; rm -r pkg; mkdir pkg; echo x > pkg/x; chmod 640 run.sh; ln -s x l")
    before, patch = await output_of(sandbox, LISTING), await sandbox.diff()
    forks = await sandbox.fork(3)
    for each in (sandbox, *forks):
        assert await output_of(each, LISTING) == before
        assert await each.diff() == patch
        assert each.isolation == sandbox.isolation


async def test_what_one_writes_later_no_other_sees(sandbox):
    await output_of(sandbox, "echo common > common")
    one, two = await sandbox.fork(2)
    for name, each in {"parent": sandbox, "one": one, "two": two}.items():
        await output_of(each, f"echo {name} > who; echo {name} >> common; rm README; mkdir README")
    for name, each in {"parent": sandbox, "one": one, "two": two}.items():
        assert await output_of(each, "cat who common") == f"{name}\ncommon\n{name}\n".encode()
        assert (await each.diff()).count(f"+{name}\n") == 2


async def test_a_fork_lives_on_after_its_parent_and_can_be_forked_again(sandbox):
    await output_of(sandbox, "echo 1 > one; rm README")
    (child,) = await sandbox.fork(1)
    await sandbox.stop()
    await output_of(child, "echo 2 > two; rm -r pkg/sub")
    (grandchild,) = await child.fork(1)
    await child.stop()
    assert await output_of(grandchild, "cat one two; ls pkg") == b"1\n2\na.py\nb.py\n"
    patch = await grandchild.diff()
    assert all(f" {path}\n" in patch for path in ("b/one", "b/two", "b/README", "b/pkg/sub/c.py"))
    with pytest.raises(SandboxError, match="stopped"):
        await child.fork(1)


async def test_a_restored_sandbox_has_the_old_files_again_and_again(sandbox):
    await output_of(sandbox, "echo old > file; rm README")
    snapshot = await sandbox.snapshot()
    old = await output_of(sandbox, LISTING)
    for command in ("echo new > file", "rm -r file pkg", "rm -rf ./*", "mkdir README; touch README/x"):
        await output_of(sandbox, command)
        assert await output_of(sandbox, LISTING) != old
        await sandbox.restore(snapshot)
        assert await output_of(sandbox, LISTING) == old
    snapshot.drop()


async def test_a_snapshot_starts_sandboxes_until_it_is_dropped(provider, sandbox):
    await output_of(sandbox, "echo kept > file")
    snapshot = await sandbox.snapshot()
    await sandbox.stop()
    late = await provider.start_from(snapshot)
    snapshot.drop()
    snapshot.drop()
    assert await output_of(late, "cat file") == b"kept\n"
    with pytest.raises(ValueError, match="dropped"):
        await provider.start_from(snapshot)


async def test_a_snapshot_can_be_dropped_after_all_else_has_ended(provider, sandbox):
    snapshot = await sandbox.snapshot()
    await provider.close()
    snapshot.drop()


@pytest.mark.parametrize("kind", ["local"])
async def test_where_the_spawner_has_died_nothing_can_be_frozen(kind, provider, sandbox):
    kept = await sandbox.snapshot()
    used = len(list(Path("/proc/self/fd").iterdir()))
    provider._spawner._process.kill()
    provider._spawner._process.wait()
    with pytest.raises(SandboxError):
        await sandbox.fork(1)
    kept.drop()
    assert len(list(Path("/proc/self/fd").iterdir())) <= used


async def test_home_and_temporary_files_are_forked_too(sandbox, kind):
    folders = ["$HOME"] if kind == "subprocess" else ["$HOME", "/tmp", "/dev/shm"]
    for folder in folders:
        await output_of(sandbox, f'mkdir "{folder}/d"; echo 1 > "{folder}/d/f"; echo 1 > "{folder}/g"')
    (fork,) = await sandbox.fork(1)
    for folder in folders:
        await output_of(sandbox, f'rm -r "{folder}/d" "{folder}/g"; echo 2 > "{folder}/d"')
        assert await output_of(fork, f'cat "{folder}/d/f" "{folder}/g"') == b"1\n1\n"
        await output_of(fork, f'rm -r "{folder}/d"; mkdir "{folder}/d"')
    (second,) = await fork.fork(1)
    for folder in folders:
        assert await output_of(second, f'ls "{folder}/d"; cat "{folder}/g"') == b"1\n"


async def test_processes_are_ended_and_their_last_words_are_in_the_snapshot(sandbox):
    await output_of(sandbox, "(while sleep 0.02; do echo x >> ticks; done) > /dev/null 2>&1 & sleep 0.2")
    forks = await sandbox.fork(2)
    for each in (sandbox, *forks):
        assert await output_of(each, "pgrep -fc 'sleep 0.0[2]' || true") in (b"0\n", b"")
    ticks = {await output_of(each, "cat ticks; sleep 0.1; cat ticks") for each in (sandbox, *forks)}
    assert len(ticks) == 1 and ticks != {b""}


async def test_a_command_that_still_runs_ends_as_by_a_signal(sandbox):
    running = asyncio.create_task(sandbox.exec("echo begun; touch begun; sleep 60", timeout_s=70))
    while (await sandbox.exec("test -e begun", timeout_s=10)).exit_code:
        pass
    snapshot = await sandbox.snapshot()
    result = await running
    assert (result.exit_code, result.output) == (137, b"begun\n")
    assert await output_of(sandbox, "ls begun") == b"begun\n"
    snapshot.drop()


async def test_commands_asked_for_meanwhile_run_afterwards(sandbox):
    (fork,), *results = await asyncio.gather(
        sandbox.fork(1), *(sandbox.exec("echo x >> log", timeout_s=20) for _ in "12")
    )
    assert [result.exit_code for result in results] == [0, 0]
    assert (await output_of(sandbox, "wc -l < log")).strip() == b"2"
    assert (await fork.exec("cat log", timeout_s=20)).exit_code == 1


async def test_a_snapshot_of_a_stranger_is_refused(sandbox):
    class Stranger:
        def drop(self):
            pass

    with pytest.raises(ValueError, match="provider of its sandbox"):
        await sandbox.restore(Stranger())
    assert await output_of(sandbox, "echo alive") == b"alive\n"


async def test_a_dead_sandbox_cannot_be_forked(sandbox):
    await sandbox.stop()
    for ask in (sandbox.snapshot(), sandbox.fork(1)):
        with pytest.raises(SandboxError):
            await ask


async def test_a_diff_leaves_what_siblings_have_locked_as_it_was(sandbox):
    look = "stat -c %a . shut shut/in shut/in/t"
    lock = "mkdir -p shut/in; echo t > shut/in/t; chmod 0 shut/in/t; chmod 100 shut/in; chmod 300 shut; chmod 500 ."
    assert await output_of(sandbox, f"{lock}; {look}") == b"500\n300\n100\n0\n"
    *forks, last = await sandbox.fork(4)
    patches = await asyncio.gather(*(fork.diff() for fork in (sandbox, *forks)))
    assert "+t\n" in patches[0] and len(set(patches)) == 1
    assert await output_of(last, look) == b"500\n300\n100\n0\n"


async def test_modes_links_and_times_survive(sandbox):
    await output_of(
        sandbox,
        "echo a > a; ln a b; ln -s a s; ln -s nowhere t; mkfifo p; mkdir -m 711 d; mkdir -m 000 closed; "
        "echo s > secret; chmod 000 secret; chmod 4755 run.sh; touch -d '2020-01-02 03:04:05' a README; chmod 700 .",
    )
    look = "stat -c '%n %f %h %Y' a b d p run.sh secret README; stat -c '%n %f' closed s t .; readlink s t"
    before = await output_of(sandbox, look)
    (fork,) = await sandbox.fork(1)
    assert await output_of(fork, look) == before == await output_of(sandbox, look)


@pytest.mark.parametrize("kind", ["local"])
async def test_a_fork_may_write_what_its_ancestors_left_of_the_limit(kind, sandbox):
    await output_of(sandbox, "head -c 60M /dev/zero > big; for i in $(seq 50); do touch $i; done")
    (fork,) = await sandbox.fork(1)
    for each in (sandbox, fork):
        assert b"No space left" in (await each.exec("head -c 60M /dev/zero > more", timeout_s=30)).output
        assert (
            await output_of(each, "rm more; head -c 20M /dev/zero > less; stat -c %s big less")
            == b"62914560\n20971520\n"
        )
    await output_of(fork, "rm big")  # of a frozen layer: nothing is gained
    assert b"No space left" in (await fork.exec("head -c 60M /dev/zero > more", timeout_s=30)).output


@pytest.mark.parametrize("kind", ["local"])
async def test_a_full_disk_stays_full_and_can_still_be_forked(kind, sandbox):
    await sandbox.exec("head -c 200M /dev/zero > big", timeout_s=30)
    (fork,) = await sandbox.fork(1)
    assert await output_of(fork, "echo alive; ls") == await output_of(sandbox, "echo alive; ls")
    assert b"No space left" in (await fork.exec("head -c 1M /dev/zero > more", timeout_s=30)).output
    await fork.restore(snapshot := await fork.snapshot())
    assert (await fork.exec("stat -c %s big", timeout_s=30)).exit_code == 0
    snapshot.drop()


@pytest.mark.parametrize("kind", ["local"])
async def test_what_cannot_be_stacked_any_higher_says_so(kind, sandbox, monkeypatch):
    monkeypatch.setattr(local, "MAX_FROZEN", 2)
    for _ in range(2):
        (await sandbox.snapshot()).drop()
    with pytest.raises(SandboxError, match="no more than 2 snapshots can be stacked"):
        await sandbox.snapshot()


@pytest.mark.parametrize("kind", ["local"])
async def test_a_mark_of_overlayfs_in_a_temporary_folder_opens_nothing(kind, sandbox):
    """Attributes that steer overlayfs can be set in /tmp, which becomes a layer of forks."""
    await output_of(sandbox, "mkdir -p /tmp/d /tmp/e; echo x > /tmp/d/x; echo x > /tmp/f")
    code = "import os; [os.setxattr('/tmp/d', 'user.overlay.' + k, v) for k, v in (('opaque', b'y'), ('redirect', b'/../..'))]"
    await output_of(sandbox, f'python -c "{code}"')
    (fork,) = await sandbox.fork(1)
    (second,) = await fork.fork(1)
    for each in (fork, second):
        listing = (await each.exec("ls /tmp /tmp/d /tmp/d/../..", timeout_s=20)).output
        assert b"frozen" not in listing and b"layers" not in listing and b"upper" not in listing


@pytest.mark.slow
async def test_a_snapshot_after_each_of_many_turns(sandbox, kind):
    last = {"podman": 9}.get(kind, 79)  # a container takes a second to go on
    snapshots = []
    for turn in range(last + 1):
        await output_of(
            sandbox, f"echo {turn} > turn; echo {turn} > pkg/{turn}; rm -f pkg/{turn - 2}; echo {turn} >> log"
        )
        snapshots.append(await sandbox.snapshot())
    (fork,) = await sandbox.fork(1)
    assert (
        await output_of(fork, "cat turn; ls pkg | grep -c '[0-9]'; wc -l < log") == f"{last}\n2\n{last + 1}\n".encode()
    )
    assert (await fork.diff()).count("diff --git") == 4
    for turn in (last // 2, 3, last, 0):
        await sandbox.restore(snapshots[turn])
        assert await output_of(sandbox, "cat turn; wc -l < log") == f"{turn}\n{turn + 1}\n".encode()
    for snapshot in snapshots:
        snapshot.drop()
    assert await output_of(fork, "cat turn") == f"{last}\n".encode()


def num_used(folder):
    """What forks could leave behind on this side: descriptors, folders, children."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    children = [pid for pid in pids if b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()]
    return len(list(Path("/proc/self/fd").iterdir())), len(list(folder.glob("turnsmith-*"))), len(children)


async def settle(count, most):
    """Wait until no more is used: the kernel takes apart what has ended in its own time."""
    for _ in range(400):
        if all(used <= allowed for used, allowed in zip(count(), most, strict=True)):
            return
        await asyncio.sleep(0.05)
    assert count() <= most


def spawner_state(provider):
    """Descriptors, mounts and children of a local provider's spawner."""
    pid = provider._spawner._process.pid
    mounts = Path(f"/proc/{pid}/mountinfo").read_text().count("\n")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), mounts, len(children)


@pytest.fixture
def own_temporary_folder(monkeypatch, tmp_path):
    """Where nobody else's sandboxes come and go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(900)  # fifty of those that copy
async def test_hundreds_of_forks_leave_nothing_behind(own_temporary_folder, kind, provider, sandbox):
    def count():
        return (*num_used(own_temporary_folder), *(spawner_state(provider) if kind == "local" else ()))

    await output_of(sandbox, "echo x > file; mkdir -m 000 closed")
    origin = await sandbox.snapshot()
    (first,) = await sandbox.fork(1)
    await first.stop()
    await sandbox.restore(origin)
    await asyncio.sleep(1)  # until those are ready that wait
    used = count()
    for _ in range({"local": 100, "podman": 4}.get(kind, 10)):
        forks = await sandbox.fork(5)
        await asyncio.gather(*(output_of(fork, "echo y >> file; (sleep 100 &) > /dev/null") for fork in forks))
        await asyncio.gather(*(fork.stop() for fork in forks))
        await sandbox.restore(origin)
    await settle(count, used)
    origin.drop()
