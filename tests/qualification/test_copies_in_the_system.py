"""Copies outside of the tree, which only a search in the sandbox can find."""

import json
from pathlib import Path

import pytest

from support.machine.podman_engine import IMAGE, find_podman
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.git.one_commit import write_history
from turnsmith.grading.cases import Case
from turnsmith.qualification.copies import SystemFiles, find_installed, search_system
from turnsmith.qualification.examination import run_afresh
from turnsmith.qualification.record import LeakKind
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import Task, TaskTree


def make_task(path, fixed):
    """Make a task whose bug is an additional line in the middle of a file."""
    lines = fixed.split("\n")
    middle = len(lines) // 2
    broken = "\n".join([*lines[:middle], "BUG = True", *lines[middle:]])
    return Task(
        instance_id=path, repo="r", base_commit="c", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[],
        patch=make_patch(path, broken, fixed), layers=["l"],
    )  # fmt: skip


@pytest.fixture
def source(tmp_path):
    (tmp_path / "tree").mkdir()
    return Path(json.decoder.__file__).read_text()


@pytest.mark.slow
async def test_visible_copy_is_found_by_text_and_by_name(source, tmp_path):
    try:
        provider = make_provider(SandboxConfig())
    except UsageError:
        pytest.skip("needs sandboxes that hide this machine")
    known = make_task("lib/copied.py", source)
    named = make_task("src/json/decoder.py", "\n".join(f"value_{number} = {number}" for number in range(40)))
    new = make_task("shop/taxes.py", "\n".join(f"tax_{number} = {number} * 17 + {number}" for number in range(40)))
    try:
        system = await search_system(provider, SandboxSpec((tmp_path / "tree",)), [known, named, new])
    finally:
        await provider.close()
    [leak, *_] = system.find_leaks(known)
    assert leak.kind is LeakKind.GOLD_PATCH and leak.where.endswith("/json/decoder.py")
    assert {leak.kind for leak in system.find_leaks(named)} == {LeakKind.COPY}
    assert system.find_leaks(new) == []


async def test_sandbox_without_isolation_is_not_searched(tmp_path):
    provider = make_provider(SandboxConfig(kind="subprocess"))
    try:
        system = await search_system(provider, SandboxSpec((tmp_path,)), [make_task("json/decoder.py", "x = 1\n" * 9)])
    finally:
        await provider.close()
    assert system == SystemFiles()


@pytest.fixture
async def containers():
    provider = make_provider(SandboxConfig(kind="podman", container_engine=find_podman()))
    yield provider
    await provider.close()


def make_image_task(**changes):
    return make_task("lib/copied.py", "x = 1\n" * 9).model_copy(update={"image": IMAGE, **changes})


@pytest.mark.slow
async def test_image_of_the_task_is_searched(containers, tmp_path):
    """Only the task names an image; the provider has none."""
    text = "\n".join(f"# distinct line {number} of a copy" for number in range(40))
    task, unknown = make_task("lib/copied.py", text), make_task("lib/other.py", text.replace("distinct", "unknown"))
    (tmp_path / "copied.py").write_text(text)
    spec = SandboxSpec((tmp_path,), "/opt/elsewhere", image=IMAGE)
    system = await search_system(containers, spec, [task, unknown])
    assert system.find_leaks(task) == system.find_leaks(unknown) == []
    system = await search_system(Moving(containers), spec, [task, unknown])
    assert [leak.where for leak in system.find_leaks(task)] == ["/srv/copied.py"] and system.find_leaks(unknown) == []


class Moving:
    """Provider that copies the tree into the system."""

    def __init__(self, provider):
        self.provider, self.isolation = provider, provider.isolation

    async def start(self, spec):
        sandbox = await self.provider.start(spec)
        await sandbox.exec("cp copied.py /srv/", timeout_s=10)
        return sandbox


@pytest.mark.slow
async def test_fresh_run_uses_the_image_of_the_task(containers, tmp_path):
    """The provider has no image, so only that of the task can be used."""
    task = make_image_task(
        FAIL_TO_PASS=["image::root"],
        test_command="test $(id -u) = 0 && echo FAILED image::root; :",
        log_parser="lines",
    )
    write_history(tmp_path / ".git", {})
    report = await run_afresh(Case(TaskTree(task, (tmp_path,)), containers, 60.0), is_gold=False)
    assert report.statuses == {"image::root": "failed"}


@pytest.mark.parametrize(
    ("path", "changed", "is_found"),
    [
        ("/usr/lib/python3/dist-packages/toolz/itertoolz.py", "toolz/itertoolz.py", True),
        ("/opt/sdk/third_party/toolz/itertoolz.py", "src/toolz/itertoolz.py", True),
        ("/usr/lib/python3/dist-packages/inflection.py", "inflection.py", True),
        ("/usr/share/doc/examples/inflection.py", "inflection.py", False),
        ("/usr/lib/other/itertoolz.py", "toolz/itertoolz.py", False),
        ("/usr/lib/python3/site-packages/toolz/__pycache__/itertoolz.cpython-312.pyc", "toolz/itertoolz.py", True),
        ("/srv/toolz/itertoolz.pyc", "toolz/itertoolz.py", True),
        ("/srv/other/__pycache__/itertoolz.cpython-312.pyc", "toolz/itertoolz.py", False),
        ("/usr/lib/nottoolz/itertoolz.py", "toolz/itertoolz.py", False),
    ],
)
def test_installed_copy_is_recognised_by_name(path, changed, is_found):
    task = make_task(changed, "\n".join(f"line_{number} = {number}" for number in range(9)))
    assert bool(list(find_installed([path], task))) is is_found
