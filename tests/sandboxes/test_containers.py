"""Container-specific behaviour: images, engine, mounted interpreter."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from support.machine.host_processes import wait_for
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.sandboxes import make_provider, podman
from turnsmith.sandboxes.base import PytestCommand, SandboxSpec
from turnsmith.sandboxes.containers import provider as containers
from turnsmith.sandboxes.containers.interpreter import find_libraries, find_loader
from turnsmith.sandboxes.images.images import name_root
from turnsmith.sandboxes.podman import LABEL
from turnsmith.sandboxes.probes import probe_podman
from turnsmith.sandboxes.runtime import cache_folder

pytestmark = pytest.mark.slow


@pytest.fixture
def kind():
    return "podman"


@pytest.fixture
async def provider_of(config, tmp_path, cache):
    """Return a function that makes providers with other settings; imported root file systems are removed afterwards."""
    providers = []

    def provide(**settings):
        providers.append(make_provider(config.model_copy(update=settings)))
        return providers[-1]

    yield provide
    for provider in providers:
        await provider.close()
    for path in filter(Path.exists, (tmp_path / "root", tmp_path / "root.tar")):
        subprocess.run([config.container_engine, "rmi", name_root(path)], capture_output=True)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return a cache with shared slow parts."""
    (cache := tmp_path / "cache" / "turnsmith").mkdir(parents=True)
    for folder in cache_folder().glob("[ir]*-*"):
        if not folder.name.startswith("image-"):
            (cache / folder.name).symlink_to(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))


@pytest.fixture
def root(tmp_path):
    """Return a root file system with this machine's shell, a working tree, and a program named python."""
    (root := tmp_path / "root").mkdir()
    for program in map(shutil.which, ("bash", "cat", "ls", "rm", "mv")):
        loader = find_loader(Path(program))
        for file in (Path(program), *find_libraries(loader, Path(program))):
            copy_into(root, file)
        copy_into(root, loader)
    (root / "bin").symlink_to("usr/bin")
    (root / "usr/bin/python").write_text("#!/bin/bash\necho the python of the image\n")
    (root / "usr/bin/python").chmod(0o755)
    (root / "repo" / "pkg").mkdir(parents=True)
    (root / "repo" / "pkg" / "a.py").write_text("x = 1\n")
    (root / "repo" / "pkg" / "b.py").write_text("y = 1\n")
    (root / "repo" / "README").write_text("hello\n")
    return root


def copy_into(root, file):
    copy = root / str(file).lstrip("/")
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, copy)


def list_owned(engine, owner):
    """Return all containers of a provider, running or not."""
    command = [engine, "ps", "--all", "--quiet", "--no-trunc", f"--filter=label={LABEL}={owner}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


async def output_of(sandbox, command):
    result = await sandbox.exec(command, timeout_s=60)
    assert result.exit_code == 0, result.output
    return result.output.decode()


async def test_an_image_needs_neither_python_nor_our_c_library(provider_of, spec, static_image):
    sandbox = await provider_of(image=static_image).start(spec)
    assert await output_of(sandbox, "ls /lib/*glibc* /lib/*/libc.so.6 /usr/bin/python* 2> /dev/null | wc -l") == "0\n"
    code = "import ssl, sqlite3, ctypes, lzma, sys; print(sys.executable)"
    assert await output_of(sandbox, f'python -c "{code}"') == "/.turnsmith/python/bin/python\n"
    test = b"import subprocess, sys\ndef test_it():\n    subprocess.run([sys.executable, '-V'], check=True)\n"
    await sandbox.write("tests/test_it.py", test)
    result = await sandbox.run_pytest(PytestCommand(("-q", "tests")), plugin="", timeout_s=60)
    assert result.exit_code == 0 and b"1 passed" in result.output
    assert "tests/test_it.py" in await sandbox.diff()


async def test_a_tree_that_the_image_holds_is_compared_with_the_image(provider_of, root):
    spec = SandboxSpec((), "/repo", image=str(root))
    sandbox = await provider_of().start(spec)
    assert await sandbox.diff() == ""
    await output_of(sandbox, "cd /repo; echo y = 2 > pkg/b.py; rm README; mv pkg/a.py pkg/c.py; echo new > new")
    patch = await sandbox.diff()
    assert [line for line in patch.splitlines() if line.startswith("diff")] == [
        f"diff --git a/{path} b/{path}" for path in ("README", "new", "pkg/a.py", "pkg/b.py", "pkg/c.py")
    ]
    assert "-y = 1\n+y = 2\n" in patch


async def test_layers_lie_over_the_tree_of_the_image(provider_of, root, tmp_path):
    layer = tmp_path / "layer"
    (layer / "pkg").mkdir(parents=True)
    (layer / "pkg" / "a.py").write_text("x = 7\n")
    sandbox = await provider_of().start(SandboxSpec((layer,), "/repo", image=str(root)))
    assert await output_of(sandbox, "cat pkg/a.py pkg/b.py README") == "x = 7\ny = 1\nhello\n"
    assert await sandbox.diff() == ""
    await output_of(sandbox, "echo x = 8 > pkg/a.py; rm pkg/b.py")
    patch = await sandbox.diff()
    assert "-x = 7\n+x = 8\n" in patch and "-y = 1\n" in patch


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make whiteouts")
async def test_a_layer_can_hide_what_the_image_holds(provider_of, root, tmp_path):
    (layer := tmp_path / "layer").mkdir()
    os.mknod(layer / "README", 0o020000, 0)
    sandbox = await provider_of().start(SandboxSpec((layer,), "/repo", image=str(root)))
    assert await output_of(sandbox, "ls") == "pkg\n"
    assert await sandbox.diff() == ""


async def test_the_programs_of_the_image_come_first(provider_of, root):
    sandbox = await provider_of().start(SandboxSpec((), "/repo", image=str(root)))
    assert await output_of(sandbox, "python") == "the python of the image\n"


async def test_a_root_file_system_may_be_a_tar_file(provider_of, root, tmp_path):
    subprocess.run(["tar", "-C", root, "-cf", tmp_path / "root.tar", "."], check=True)
    sandbox = await provider_of(image=str(tmp_path / "root.tar")).start(SandboxSpec((), "/repo"))
    assert await output_of(sandbox, "cat README") == "hello\n"


async def test_what_is_missing_is_said_in_one_sentence(provider_of, root, tmp_path, spec):
    provider = provider_of(image="")
    for image, layers, workdir, words in (
        ("", spec.layers, "/testbed", "needs an image: set the task's `image`, or --sandbox.image"),
        (
            "localhost/no-such-image",
            spec.layers,
            "/testbed",
            "image localhost/no-such-image",
        ),
        (f"{tmp_path}/nowhere", spec.layers, "/testbed", "root file system"),
        (str(root), (), "/elsewhere", "/elsewhere"),
    ):
        with pytest.raises(SandboxError, match="could not start") as refused:
            await provider.start(SandboxSpec(layers, workdir, image=image))
        assert words in str(refused.value) and "\n" not in str(refused.value)
    assert list_owned(provider.program, provider.owner) == []


async def test_an_image_for_all_tasks_is_looked_for_at_once(provider_of, tmp_path):
    with pytest.raises(UsageError, match="image localhost/no-such-image"):
        provider_of(image="localhost/no-such-image")
    with pytest.raises(UsageError, match="root file system"):
        provider_of(image=f"{tmp_path}/nowhere")


async def test_an_image_without_bash_dies_and_says_so(provider_of, root):
    (root / "usr/bin/bash").rename(root / "usr/bin/zsh")
    provider = provider_of()
    sandbox = await provider.start(SandboxSpec((), "/repo", image=str(root)))
    with pytest.raises(SandboxError, match="no /bin/bash"):
        await sandbox.exec("true", timeout_s=60)
    await wait_for(lambda: list_owned(provider.program, provider.owner) == [])


def test_an_engine_that_does_not_work_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="not installed"):
        make_provider(SandboxConfig(kind="podman", container_engine=str(tmp_path / "no-engine")))
    broken = write_engine(tmp_path, "echo first >&2; echo 'Error: no daemon' >&2; exit 125")
    with pytest.raises(UsageError, match="no daemon"):
        make_provider(SandboxConfig(kind="podman", container_engine=broken))


def write_engine(folder, script):
    (engine := folder / "engine").write_text(f"#!/bin/sh\n{script}\n")
    engine.chmod(0o755)
    return str(engine)


@pytest.mark.parametrize(
    "script",
    [
        "true",
        "echo what",
        "printf '\\377'",
        "echo '{}'",
        "echo 3",
    ],
)
def test_what_is_no_engine_though_it_answers_is_a_usage_error(tmp_path, script):
    engine = write_engine(tmp_path, script)
    with pytest.raises(UsageError, match=r"engine .*podman") as refused:
        make_provider(SandboxConfig(kind="podman", container_engine=engine, image="debian"))
    assert "\n" not in str(refused.value)


def test_an_engine_that_does_not_answer_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setattr(podman, "FIRST_ANSWER_S", 0.5)
    with pytest.raises(UsageError, match=r"`.*engine info` works.* 0\.5 s"):
        make_provider(SandboxConfig(kind="podman", container_engine=write_engine(tmp_path, "exec sleep 1000")))


def test_a_file_that_is_no_root_file_system_is_blamed(config, tmp_path):
    (file := tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=rf"{file}.* tar file"):
        make_provider(config.model_copy(update={"image": str(file)}))


def test_an_engine_is_tried_by_starting_a_container(config, tmp_path):
    found = probe_podman(config.container_engine)
    assert (found.ok, found.detail) == (True, "isolation container-user")
    missing = probe_podman(str(tmp_path / "no-engine"))
    assert not missing.ok and "not installed" in missing.detail and "images" in missing.remedy


async def test_an_image_is_refused_where_nothing_would_read_it(tmp_path):
    with pytest.raises(UsageError, match="--sandbox podman instead of local"):
        make_provider(SandboxConfig(kind="local", image="debian"))
    provider = make_provider(SandboxConfig(kind="subprocess"))
    with pytest.raises(UsageError, match="image debian"):
        await provider.start(SandboxSpec((tmp_path,), image="debian"))
    await provider.close()


async def test_what_was_made_and_never_started_is_removed_by_a_later_provider(config, provider_of, monkeypatch):
    """A process killed between two steps of the engine leaves a created container; running containers are kept."""

    def ask(*arguments):
        command = [config.container_engine, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    label = f"{LABEL}-{os.getpid()}"  # nothing of the tests beside this one may be removed
    ask("create", f"--label={label}", config.image, "true")
    running = ask("run", "--rm", "--detach", f"--label={label}", config.image, "sleep", "99")
    monkeypatch.setattr(podman, "LABEL", label)
    monkeypatch.setattr(podman, "FORGOTTEN_AFTER", "-1h")  # "0s" spares what was made within this second
    provider_of()
    assert ask("ps", "--all", "--quiet", "--no-trunc", f"--filter=label={label}") == running
    ask("rm", "--force", "--time=0", running)


async def test_the_supervisor_is_out_of_reach(sandbox):
    assert await output_of(sandbox, "ls -A /.turnsmith/connection") == ""
    assert await output_of(sandbox, "grep -c '^Cap.*:.0000000000000000$' /proc/self/status") == "5\n"
    assert await output_of(sandbox, "grep NoNewPrivs /proc/self/status") == "NoNewPrivs:\t1\n"
    assert (await output_of(sandbox, "cat /proc/self/uid_map")).split() == ["0", "1878982656", "65536"]
    for attempt in (
        "touch /.turnsmith/python/x",
        "touch /.turnsmith/toolbox/x",
        "rm -r /.turnsmith/toolbox",
        "mount -o remount,rw /.turnsmith/toolbox",
        "cat /proc/1/environ",
        "cat /proc/1/mem",
        "readlink /proc/1/fd/3",
        "echo x > /proc/sys/kernel/hostname",
        "mknod /tmp/null c 1 3",
        "unshare --user true",
        "unshare --map-root-user --mount mount -t tmpfs none /tmp",
        "chown 1000 /root",
        "chmod 666 /dev/null",
    ):
        assert (await sandbox.exec(attempt, timeout_s=20)).exit_code != 0, attempt
    await sandbox.exec("kill -9 1; kill -INT 1; kill -TERM 1; kill -STOP 1", timeout_s=20)
    assert await output_of(sandbox, "echo alive") == "alive\n"


async def test_the_limits_hold(sandbox):
    bomb = await sandbox.exec("for i in $(seq 90); do sleep 1 & done", timeout_s=60)
    assert b"Resource temporarily unavailable" in bomb.output
    hog = await sandbox.exec("python -c 'bytearray(500 << 20)'", timeout_s=60)
    assert b"MemoryError" in hog.output
    large = await sandbox.exec("head -c 200M /dev/zero > large", timeout_s=60)
    assert large.exit_code == 128 + signal.SIGXFSZ
    code = 'import socket; socket.create_connection(("1.1.1.1", 53), 2)'
    assert b"Network is unreachable" in (await sandbox.exec(f"python -c '{code}'", timeout_s=60)).output


async def test_a_supervisor_that_never_calls_is_removed_in_the_end(provider_of, spec, monkeypatch):
    monkeypatch.setattr(containers, "START_TIMEOUT_S", 0.5)
    monkeypatch.setattr(containers, "_PROGRAM", "import time; time.sleep(999)")
    provider = provider_of()
    with pytest.raises(SandboxError, match="did not answer"):
        await provider.start(spec)
    assert len(list_owned(provider.program, provider.owner)) == 1
    await provider.close()
    assert list_owned(provider.program, provider.owner) == []
