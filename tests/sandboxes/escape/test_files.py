"""Files of the host: ordinary files, shared layers, and the read-only system."""

import hashlib
import os
import secrets
import sys
from pathlib import Path

from turnsmith.sandboxes.runtime import prepare_runtime


def fingerprint(folder):
    """Return all visible properties of a tree."""

    def look(path):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        return status.st_mode, status.st_uid, status.st_nlink, status.st_size, status.st_mtime_ns, content

    return {path: look(path) for path in [folder, *folder.rglob("*")]}


READ = """
for way in ["", "/proc/1/root", "/proc/self/root", "/..", "/testbed/../..", "/host", "/proc/1/cwd", "/proc/self/cwd/../..",
            f"/proc/{os.getppid()}/root", "/oldroot", "/mnt", "/proc/self/task/1/root"]:
    with contextlib.suppress(OSError):
        print(open(way + path).read())
"""


async def test_a_secret_that_anyone_on_the_host_may_read_is_out_of_reach(inside, outside, run, open_folder):
    secret = secrets.token_hex()
    (open_folder / "secret").write_text(secret)
    path = str(open_folder / "secret")
    assert secret in outside(READ, path=path)
    assert secret not in await inside(READ, path=path)
    search = (
        f"grep -rIlsF {secret[:32]} / --exclude-dir=usr --exclude-dir=proc; find / -xdev -name '{open_folder.name}'"
    )
    assert (await run(search, timeout_s=60)).output == b""


async def test_the_hosts_users_and_passwords_are_out_of_reach(inside, outside):
    code = """
    for path in ("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_rsa_key"):
        with contextlib.suppress(OSError):
            print(open(path).read())
    """
    names = {line.split(":")[0] for line in outside(code).splitlines()}
    assert {"root", "daemon", "nobody"} <= names
    assert {line.split(":")[0] for line in (await inside(code)).splitlines() if line} == {
        "root",
        "agent",
        "nobody",
        "nogroup",
    }


async def test_a_file_that_anyone_on_the_host_may_write_stays_as_it_is(inside, outside, open_folder):
    code = """
    for way in ("", "/proc/1/root", "/proc/self/root", "/..", "/host"):
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(way + path), exist_ok=True)
            open(way + path, "w").write("changed")
    """
    file = open_folder / "file"
    file.write_text("as it was")
    file.chmod(0o666)
    await inside(code, path=str(file))
    assert file.read_text() == "as it was"
    outside(code, path=str(file))
    assert file.read_text() == "changed"


DESTROY = """
import shutil
for folder, names, files in os.walk("."):
    for name in files:
        path = os.path.join(folder, name)
        for attempt in (
            lambda: os.link(path, "/tmp/link"),
            lambda: os.setxattr(path, "user.mark", b"x"),
            lambda: os.chmod(path, 0o777),
            lambda: os.utime(path, (1, 1)),
            lambda: os.chown(path, 0, 0),
            lambda: mmap.mmap(os.open(path, os.O_RDWR), 1).write(b"!"),
            lambda: open(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}", "r+").write("changed"),
            lambda: os.truncate(path, 0),
            lambda: open(path, "w").write("changed"),
            lambda: os.rename(path, path + ".moved"),
        ):
            works(attempt)
os.rename("pkg/sub/c.py.moved", "c.py")
shutil.rmtree("pkg")
print(*sorted(os.listdir(".")))
"""


async def test_the_layers_that_all_share_stay_as_they_are(inside, beside, layers):
    before = [fingerprint(layer) for layer in layers]
    assert "README.moved" in await inside(DESTROY)
    assert [fingerprint(layer) for layer in layers] == before
    assert await beside("print(open('pkg/a.py').read(), sorted(os.listdir('.')))") == (
        "x = 3\n ['README', 'link', 'logo.bin', 'new.txt', 'pkg', 'run.sh']"
    )


CHANGE = """
for path in paths:
    tell(
        open=lambda: open(path, "ab"),
        chmod=lambda: os.chmod(path, 0o777),
        utime=lambda: os.utime(path, (1, 1)),
        chown=lambda: os.chown(path, os.getuid(), os.getgid()),
        label=lambda: os.setxattr(path, "user.mark", b"x"),
        reopen=lambda: open(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}", "ab"),
        rename=lambda: os.rename(path, path + ".moved"),
        remove=lambda: os.unlink(path + ".moved"),
    )
"""


async def test_the_system_the_interpreter_and_the_test_runtime_stay_as_they_are(inside, beside, run):
    watched = [Path(sys._base_executable).resolve(), Path(os.__file__), Path("/bin/bash"), Path("/usr/bin/env")]
    before = [path.stat() for path in watched]
    places = "/proc/self/exe /opt/turnsmith/shell.sh /opt/runtime/pytest/__init__.py /etc/passwd /usr /opt/runtime / /dev/null"
    assert (await inside(CHANGE, paths=[*map(str, watched), *places.split()])).replace("open reopen", "").split() == []
    after = [path.stat() for path in watched]
    assert [(s.st_mode, s.st_mtime_ns, s.st_ctime_ns) for s in after] == [
        (s.st_mode, s.st_mtime_ns, s.st_ctime_ns) for s in before
    ]
    assert await beside("import pytest; print(pytest.ExitCode.OK)") == "0"
    own = await inside("open('/tmp/own', 'w').close()" + CHANGE, paths=["/tmp/own"])
    assert own.split() == ["chmod", "chown", "label", "open", "remove", "rename", "reopen", "utime"]


LOCK = """
def lock(path, held=[]):
    held.append(os.open(path, os.O_RDONLY))
    fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)

print([path for path in paths if works(lambda: lock(path))])
if stays:
    stay()
"""


async def test_a_lock_on_a_file_of_the_host_holds_nobody_up_on_the_host(inside, outside, layers):
    """The folder below a mount point in an interpreter's folder belongs to the host."""
    runtime, prefix = prepare_runtime(), Path(sys.base_prefix).resolve()
    system = ["/bin/bash", "/usr"]
    if f" {prefix}/" not in Path("/proc/self/mounts").read_text():
        system += [str(Path(sys._base_executable).resolve()), os.__file__]
    shown = {"/opt/runtime/pytest/__init__.py": f"{runtime}/pytest/__init__.py", "README": f"{layers[0]}/README"}
    there, here = [*system, *shown], [*system, *shown.values()]
    assert await inside(LOCK, paths=there, stays=True) == str(there)
    assert outside(LOCK, paths=here, stays=False) == str(here)
    assert await inside(LOCK, paths=there, stays=False) == "[]"
