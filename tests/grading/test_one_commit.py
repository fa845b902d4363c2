"""Sandboxes show one commit, whatever history the layers hold."""

import os
import shutil
import subprocess

import pytest

from turnsmith.git.one_commit import write_history
from turnsmith.sandboxes.base import SandboxSpec, started
from turnsmith.sandboxes.setup import has_one_commit, set_up
from turnsmith.synthesis.repositories import to_tree, write_bug_layer, write_shared_layer
from turnsmith.types import Task, TaskTree

TEXTS = {"shop.py": "total = 1\n", "data/kept.log": "tracked, though ignored\n", ".gitignore": "*.log\nbuild/\n"}
SECRET = "the_fix_of_tomorrow"


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def origin(tmp_path):
    """Make a checkout at its first commit; refs, a stash, a remote and an inner repository reach a later one."""
    folder = tmp_path / "origin"
    write_shared_layer(folder, to_tree(TEXTS))
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "base")
    (folder / "shop.py").write_text(f"{SECRET} = 1\n")
    git(folder, "commit", "--quiet", "--all", "--message", "fix")
    git(folder, "tag", "v2")
    git(folder, "reset", "--quiet", "--hard", "HEAD~1")
    (folder / "shop.py").write_text(f"{SECRET} = 2\n")
    git(folder, "stash")
    git(folder, "remote", "add", "origin", "https://example.org/shop.git")
    (folder / "build").mkdir()
    (folder / "build/shop.so").write_text("made by an installation")
    shutil.copytree(folder / ".git", folder / "vendor/inner/.git")
    (folder / "vendor/inner/used.py").write_text("used = 1\n")
    return folder


def make_task(**columns):
    return Task(
        instance_id="shop-1", repo="shop", base_commit="c", problem_statement="p", patch="", layers=["x"],
        FAIL_TO_PASS=["t.py::t"], PASS_TO_PASS=[], **columns,
    )  # fmt: skip


async def ask(provider, layers, *questions, setup=()):
    """Return the output of commands in an agent's sandbox."""
    async with started(provider, SandboxSpec(tuple(layers))) as sandbox:
        await set_up(sandbox, TaskTree(make_task(setup=list(setup)), layers))
        answers = [await sandbox.exec(question, timeout_s=60) for question in questions]
        return [answer.output.decode(errors="replace") for answer in answers], await sandbox.diff()


CONTENTS = "git cat-file --batch-all-objects --batch"
EVERYTHING = "cat $(find . -path '*/.git/*' -type f)"


@pytest.mark.parametrize("is_packed", [False, True])
async def test_history_with_the_fix_is_removed(provider, origin, is_packed):
    if is_packed:
        git(origin, "gc", "--quiet")
    assert not has_one_commit((origin,))
    (commits, contents, everything, status, stores), patch = await ask(
        provider,
        (origin,),
        "git rev-list --all --reflog --count",
        CONTENTS,
        EVERYTHING,
        "git status --short; git remote; git tag; git stash list",
        "find . -name .git",
    )
    assert commits == "1\n" and "total = 1" in contents
    assert SECRET not in contents and SECRET not in everything and "example.org" not in everything
    assert status == "" and stores == "./.git\n" and patch == ""


async def test_tracked_and_ignored_files_keep_their_state(provider, origin):
    (tracked, head), _ = await ask(provider, (origin,), "git ls-files", "git rev-parse HEAD")
    expected = [".gitignore", "data/kept.log", "shop.py", "vendor/inner/used.py"]
    assert tracked.splitlines() == expected
    tree = to_tree({path: (origin / path).read_text() for path in expected})
    assert head.strip() == write_history(origin.parent / "same/.git", tree)


async def test_tree_without_history_gets_one_commit(provider, origin):
    shutil.rmtree(origin / ".git")
    (commits,), _ = await ask(provider, (origin,), "git rev-list --all --count")
    assert commits == "1\n"


async def test_broken_history_is_replaced(provider, origin):
    shutil.rmtree(origin / ".git")
    (origin / ".git").write_text("gitdir: /elsewhere\n")
    (commits,), _ = await ask(provider, (origin,), "git rev-list --all --count")
    assert commits == "1\n"


async def test_setup_commands_can_read_the_original_history(provider, origin):
    (text, commits), _ = await ask(
        provider, (origin,), "cat shop.py", "git rev-list --all --count", setup=["git checkout --quiet v2"]
    )
    assert SECRET in text and commits == "1\n"


@pytest.fixture
def made(tmp_path):
    """Make layers as `tasks make` writes them."""
    tree = to_tree(TEXTS)
    write_shared_layer(tmp_path / "clean", tree)
    write_bug_layer(tmp_path / "bug", tree, {"shop.py": b"total = 2\n"})
    return tmp_path / "clean", tmp_path / "bug"


async def test_history_made_by_turnsmith_is_kept(provider, made):
    assert has_one_commit(made)
    (commits, status), _ = await ask(provider, made, "git rev-list --all --count", "git status --short")
    assert commits == "1\n" and status == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda bug: (bug / "more.py").write_text("x = 1\n"),
        lambda bug: (bug / "shop.py").write_text("total = 3\n"),
        lambda bug: (bug / "shop.py").chmod(0o755),
        lambda bug: (bug / ".git/ORIG_HEAD").write_text("0" * 40),
        lambda bug: (bug / ".git/objects/aa").mkdir() or (bug / ".git/objects/aa" / ("a" * 38)).write_text("x"),
        lambda bug: (bug / ".git/config").write_text("[remote]\n"),
        lambda bug: os.mkdir(bug / "__pycache__") or (bug / "__pycache__/shop.cpython-311.pyc").write_text("x"),  # noqa: PTH102
        lambda bug: (bug / "old.pyc").write_text("x"),
    ],
)
def test_any_change_of_a_made_history_is_detected(made, change):
    change(made[1])
    assert not has_one_commit(made)
