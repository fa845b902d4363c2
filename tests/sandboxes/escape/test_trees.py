"""Trees read by the host: symlinks, races, special files, and overlay marks."""

import asyncio
import contextlib
import os
import secrets
from dataclasses import replace

import pytest

from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import PytestCommand


@pytest.fixture
def secret(open_folder):
    """Return a file of the host that anyone may read and write."""
    file = open_folder / "secret"
    file.write_text(secrets.token_hex())
    file.chmod(0o666)
    return file


@pytest.mark.parametrize("kind", ["local", "subprocess"])
async def test_the_host_reads_and_writes_through_no_link_out_of_the_sandbox(kind, sandbox, run, secret):
    await run(f"ln -s {secret} file; ln -s {secret.parent} folder; ln -s /proc/1/root/{secret} way")
    content, found = secret.read_text(), b""
    for path in ("file", "folder/secret", "way", "../../../.." + str(secret), "/proc/self/cwd/file"):
        with contextlib.suppress(OSError):
            found += await sandbox.read(path)
        with contextlib.suppress(OSError):
            await sandbox.write(path, b"changed")
    if kind == "local":
        assert content.encode() not in found and secret.read_text() == content
    else:  # where nothing is contained, the same attempts succeed
        assert content.encode() in found and secret.read_text() == "changed"


async def test_a_patch_holds_nothing_that_a_link_leads_to(sandbox, run, secret):
    await run(f"rm -rf pkg run.sh; ln -s {secret.parent} pkg; ln -s {secret} run.sh; ln -s / all; ln -s . self")
    patch = await sandbox.diff()
    assert f"+{secret}\n" in patch and secret.read_text() not in patch


SWAP = """
import itertools
for number in itertools.count():
    works(lambda: os.rename("pkg", f"/testbed/old{number % 2}"))
    works(lambda: os.symlink(folder, "pkg"))
    works(lambda: os.unlink("pkg"))
    works(lambda: os.mkdir("pkg"))
    works(lambda: open("pkg/secret", "w").close())
    works(lambda: os.unlink("pkg/secret"))
    works(lambda: os.symlink(folder + "/secret", "pkg/secret"))
"""


async def test_a_folder_that_becomes_a_link_meanwhile_leads_the_host_nowhere(sandbox, run, secret, inside):
    await run("rm -rf pkg; mkdir pkg")
    swapping = asyncio.create_task(inside(SWAP, folder=str(secret.parent)))
    patches = []
    while len(patches) < 50 or (len(set(patches)) < 2 and not swapping.done()):
        patches.append(await sandbox.diff())
    swapping.cancel()
    assert len(set(patches)) > 1, "nothing moved"
    assert not any(secret.read_text() in patch for patch in patches)


ODD = """
names = ["x" * 255, "\\n", "\\x1b[2J", "-rf", "a b", " ", '"', "\\\\", "$(id)", "..." , "\\u202e", "con", "*"]
for name in names:
    open(name, "w").write(name)
open(b"\\xff\\xfe", "w").write("not unicode")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
works(lambda: os.mknod("whiteout", stat.S_IFCHR, os.makedev(0, 0)))
os.symlink("loop", "loop")
os.symlink("x" * 4000, "long")
os.makedirs("deep/" + "d/" * 500)
open("sparse", "w").truncate(1 << 40)
open("holes", "w").truncate(1 << 26)
os.chmod("pkg", 0)
"""


async def test_odd_files_neither_hold_up_the_host_nor_hide_the_rest(sandbox, inside, run):
    await inside(ODD)
    await run("echo honest > honest.py")
    patch = await asyncio.wait_for(sandbox.diff(), 60)
    assert "+honest\n" in patch and "\x1b" not in patch.split("+++ ")[0]
    assert all(line.isprintable() for line in patch.splitlines() if line.startswith("diff --git"))
    await asyncio.wait_for(sandbox.stop(), 30)


OVERLAY = """
os.makedirs("mark")
open("mark/own", "w").close()
for path in ("mark", "mark/own", "pkg", "pkg/a.py", "README"):
    for prefix in ("user.overlay.", "trusted.overlay.", "user.overlay.overlay."):
        for name, value in (("opaque", b"y"), ("redirect", b"/pkg/sub"), ("redirect", b"/../../../etc"), ("metacopy", b""),
                            ("origin", b"\\x00\\xfb"), ("whiteout", b"y"), ("opaque", b"x"), ("upper", b"x"), ("impure", b"y")):
            works(lambda: os.setxattr(path, prefix + name, value))
works(lambda: os.mknod("pkg/b.py", stat.S_IFCHR, os.makedev(0, 0)))
print(sorted(os.listdir("mark")), sorted(os.listdir("pkg")), open("README").read().strip())
"""


async def test_the_marks_of_the_overlay_lead_to_no_other_layer(sandbox, inside, beside, layers):
    assert await inside(OVERLAY) == "['own'] ['a.py', 'b.py', 'sub'] hello"
    assert (
        await inside("print(sorted(os.listdir('mark')), sorted(os.listdir('pkg')))")
        == "['own'] ['a.py', 'b.py', 'sub']"
    )
    assert "etc" not in await sandbox.diff()
    assert await beside("print(sorted(os.listdir('pkg')))") == "['a.py', 'b.py', 'sub']"
    assert all(not os.listxattr(path) for layer in layers for path in layer.rglob("*"))


SCAN = """
import re, sys

def test_it():
    own = "TOKEN_" + "0" * 32
    found = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            try:
                memory.seek(start)
                found.update(re.findall(rb"TOKEN_[0-9a-f]{32}", memory.read(end - start)))
            except (OSError, ValueError, OverflowError):
                pass
    print("found", sorted(found - {own.encode()}), own.encode() in found)
"""


async def test_a_fork_of_the_spawner_remembers_no_secret_of_the_host(spec, layers, monkeypatch):
    """Tests may run in a fork of this process, with all of its memory."""
    monkeypatch.setenv("API_TOKEN", "TOKEN_" + secrets.token_hex(16))
    (layers[1] / "test_scan.py").write_text(SCAN)
    provider = make_provider(SandboxConfig())
    sandbox = await provider.start(replace(spec, is_for_tests=True))
    result = await sandbox.run_pytest(PytestCommand(("-q", "-s", "test_scan.py")), plugin="", timeout_s=60)
    await provider.close()
    assert b"found [] True" in result.output, result.output.decode()
