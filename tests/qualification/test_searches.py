"""A search finds everything or raises an error."""

import pytest

from support.machine.podman_engine import IMAGE, STATIC_IMAGE, find_podman
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.qualification.copies import SYSTEM, TREE, find_paths, find_texts
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec

LONG_NAMES = "mkdir {folder}; cd {folder}; for n in $(seq 3000); do echo the_needle > $(printf '%0200d' $n).txt; done"
pytestmark = pytest.mark.slow


@pytest.fixture(params=["local", IMAGE])
async def sandbox(request, tmp_path, monkeypatch):
    monkeypatch.setattr("turnsmith.sandboxes.supervised.MAX_OUTPUT_BYTES", 1_000)
    provider = make(request.param)
    yield await provider.start(SandboxSpec((tmp_path,), image="" if request.param == "local" else request.param))
    await provider.close()


def make(name):
    kind = {} if name == "local" else {"kind": "podman", "container_engine": find_podman()}
    try:
        return make_provider(SandboxConfig(**kind))
    except UsageError as error:
        pytest.skip(str(error))


async def test_search_finds_more_than_the_output_limit(sandbox):
    made = await sandbox.exec(LONG_NAMES.format(folder="/tmp/many"), timeout_s=30)
    assert made.exit_code == 0, made.output
    names = [f"/tmp/many/{number:0200d}.txt" for number in range(1, 3001)]
    assert sorted(await find_texts(sandbox, SYSTEM, [b"the_needle", b"no_such_needle"])) == names
    assert sorted(await find_paths(sandbox, SYSTEM, ["*/00000*.txt"])) == names


async def test_unreadable_file_does_not_stop_a_search(sandbox):
    await sandbox.exec("mkdir -m 0 /tmp/locked; echo the_needle > /tmp/open.txt", timeout_s=10)
    assert await find_texts(sandbox, SYSTEM, [b"the_needle"]) == ["/tmp/open.txt"]
    assert await find_paths(sandbox, SYSTEM, ["*/open.txt"]) == ["/tmp/open.txt"]


async def test_tree_search_is_limited_to_the_tree(sandbox):
    await sandbox.exec("echo the_needle > /tmp/outside.txt; mkdir pkg; echo the_needle > pkg/a.txt", timeout_s=10)
    assert await find_texts(sandbox, TREE, [b"the_needle"]) == ["./pkg/a.txt"]
    assert await find_paths(sandbox, TREE, ["*.txt"]) == ["./pkg/a.txt"]


async def test_search_without_its_tools_raises_an_error(tmp_path):
    """A grep without these options finds nothing and prints no error."""
    provider = make(STATIC_IMAGE)
    try:
        sandbox = await provider.start(SandboxSpec((tmp_path,), image=STATIC_IMAGE))
        with pytest.raises(SandboxError, match="GNU grep and find"):
            await find_texts(sandbox, SYSTEM, [b"the_needle"])
    finally:
        await provider.close()
