"""Each way in which a tree can give its answer away is found by the scan, and nothing honest is taken for one."""

import py_compile
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from shop_texts import BASE, FIXED, HIDDEN, VISIBLE
from turnsmith.qualification.record import LeakKind
from turnsmith.qualification.scanning import scan_layers


def scan(origin):
    return scan_layers(origin.task, [origin.folder])


def kinds(leaks):
    return {leak.kind for leak in leaks}


def test_a_history_up_to_the_base_is_clean(origin):
    origin.git("tag", "v1", "HEAD~1")
    origin.git("tag", "--annotate", "--message", "one", "v1.0", "HEAD~1")
    origin.git("tag", "--annotate", "--message", "of a tag", "v1.0.0", "v1.0")
    origin.git("branch", "old", "HEAD~1")
    assert scan(origin) == []
    origin.git("gc", "--quiet")
    assert not (origin.folder / ".git/refs/tags/v1").exists()
    assert scan(origin) == []


def test_a_tree_without_history_is_clean(origin):
    shutil.rmtree(origin.folder / ".git")
    assert scan(origin) == []


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_dangling_commit_is_found(origin, commit_fix, is_packed):
    fix = commit_fix()
    if is_packed:
        origin.git("update-ref", "refs/keep", fix)
        origin.git("gc", "--quiet")
        for names in ("packed-refs", "info/refs"):
            (origin.folder / ".git" / names).unlink()
        write_name("refs/heads/main", origin.base)(origin, fix)
        assert not list((origin.folder / ".git/objects").glob("[0-9a-f][0-9a-f]"))
    leaks = scan(origin)
    assert kinds(leaks) == {LeakKind.OBJECTS, LeakKind.GOLD_PATCH}
    assert fix in leaks[0].what


def write_name(path, line):
    def write(origin, fix):
        file = origin.folder / ".git" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(line.format(fix=fix, none="0" * 40) + "\n")

    return write


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("refs/heads/solution", write_name("refs/heads/solution", "{fix}")),
        ("refs/tags/v2", write_name("refs/tags/v2", "{fix}")),
        ("refs/remotes/origin/main", write_name("refs/remotes/origin/main", "{fix}")),
        ("refs/stash", write_name("refs/stash", "{fix}")),
        ("refs/notes/commits", write_name("refs/notes/commits", "{fix}")),
        ("refs/pull/7/head", write_name("refs/pull/7/head", "{fix}")),
        ("packed-refs", write_name("packed-refs", "{fix} refs/heads/solution")),
        ("FETCH_HEAD", write_name("FETCH_HEAD", "{fix}\tbranch 'main' of somewhere")),
        ("ORIG_HEAD", write_name("ORIG_HEAD", "{fix}")),
        ("logs/HEAD", write_name("logs/HEAD", "{none} {fix} a <a@b> 0 +0000\tcommit: fix")),
    ],
)
def test_what_names_a_later_commit_is_found(origin, commit_fix, where, name):
    fix = commit_fix()
    name(origin, fix)
    found = [leak for leak in scan(origin) if leak.kind is LeakKind.REFERENCE]
    assert [leak.where for leak in found] == [f".git/{where}"]
    assert fix in found[0].what


def test_a_name_counts_though_the_commit_itself_is_gone(origin):
    write_name("FETCH_HEAD", "{fix}\tbranch 'main' of somewhere")(origin, origin.fix)
    assert kinds(scan(origin)) == {LeakKind.REFERENCE}


def test_a_remote_is_found(origin):
    origin.git("remote", "add", "origin", "https://example.org/shop.git")
    [leak] = scan(origin)
    assert (leak.kind, leak.where) == (LeakKind.REMOTE, ".git/config") and "origin" in leak.what


def add_worktree(origin):
    origin.git("worktree", "add", "--quiet", "--detach", str(origin.folder.parent / "beside"))


def add_alternates(origin):
    (origin.folder / ".git/objects/info/alternates").write_text("/elsewhere/objects\n")


def add_submodule_store(origin):
    subprocess.run(["git", "init", "--quiet", "--bare", origin.folder / ".git/modules/inner"], check=True)


def add_inner_repository(origin):
    subprocess.run(["git", "init", "--quiet", origin.folder / "vendor"], check=True)


@pytest.mark.parametrize("add", [add_worktree, add_alternates, add_submodule_store, add_inner_repository])
def test_another_store_is_found(origin, add):
    add(origin)
    assert LeakKind.STORE in kinds(scan(origin))


def test_a_history_that_lies_elsewhere_is_found(origin):
    shutil.move(origin.folder / ".git", origin.folder.parent / "elsewhere")
    (origin.folder / ".git").write_text("gitdir: /elsewhere\n")
    assert kinds(scan(origin)) == {LeakKind.STORE}


def test_a_history_that_git_cannot_read_is_not_taken_for_clean(origin):
    [pack] = (origin.folder / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:40])
    assert kinds(scan(origin)) == {LeakKind.OBJECTS}


def test_a_base_commit_that_is_not_there_is_said(origin):
    task = origin.task.model_copy(update={"base_commit": origin.fix})
    [leak] = scan_layers(task, [origin.folder])
    assert leak.kind is LeakKind.OBJECTS and "is not among the objects" in leak.what


def test_the_fix_in_an_older_commit_is_found(origin):
    """A revert: the history before the base holds what the gold patch makes."""
    (origin.folder / "shop.py").write_text(FIXED)
    origin.git("commit", "--quiet", "--all", "--message", "a bound")
    (origin.folder / "shop.py").write_text(BASE)
    origin.git("commit", "--quiet", "--all", "--message", "no bound")
    origin.base = origin.git("rev-parse", "HEAD")
    [leak] = scan(origin)
    assert leak.kind is LeakKind.GOLD_PATCH and leak.where.startswith("git blob ")


@pytest.mark.parametrize("path", ["shop.py.orig", ".cache/copy.txt", ".git/rebase-apply/patch.txt"])
def test_the_fixed_file_beside_the_tree_is_found(origin, path):
    file = origin.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(FIXED)
    [leak] = scan(origin)
    assert (leak.kind, leak.where) == (LeakKind.GOLD_PATCH, path)


def test_hidden_tests_beside_the_tree_are_found(origin):
    (origin.folder / "run_tests.py").write_text(VISIBLE + HIDDEN)
    (origin.folder / "test_shop.py").write_text(VISIBLE + HIDDEN)
    assert {(leak.kind, leak.where) for leak in scan(origin)} == {
        (LeakKind.TEST_PATCH, "run_tests.py"),
        (LeakKind.TEST_PATCH, "test_shop.py"),
    }


def test_the_fixed_file_in_a_wheel_is_found(origin):
    with zipfile.ZipFile(origin.folder / "shop-2.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("shop/core.py", FIXED)
    [leak] = scan(origin)
    assert (leak.kind, leak.where) == (LeakKind.GOLD_PATCH, "shop-2.0-py3-none-any.whl!shop/core.py")


def test_another_copy_in_the_base_commit_is_found(origin):
    copy = origin.folder / "build/lib/shop.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(FIXED)
    origin.git("add", "--all")
    origin.git("commit", "--quiet", "--message", "a stale build")
    origin.base = origin.git("rev-parse", "HEAD")
    [leak] = scan(origin)
    assert (leak.kind, leak.where) == (LeakKind.COPY, "build/lib/shop.py")


def test_a_function_that_was_written_twice_is_no_leak(origin):
    """The lines of the fix stand in another file of the base, by right."""
    twin = FIXED[FIXED.index("def total") :]
    other = "\n".join(f"def price_{number}():\n    return {number}\n" for number in range(20))
    (origin.folder / "cart.py").write_text(f"{other}\n{twin}")
    origin.git("add", "--all")
    origin.git("commit", "--quiet", "--message", "a cart")
    origin.base = origin.git("rev-parse", "HEAD")
    assert scan(origin) == []


def test_bytecode_of_the_fixed_text_is_found_and_that_of_the_base_is_not(origin):
    source, bytecode = origin.folder / "shop.py", origin.folder / "__pycache__/shop.cpython-311.pyc"
    py_compile.compile(str(source), str(bytecode), doraise=True)
    assert scan(origin) == []
    source.write_text(FIXED)
    py_compile.compile(str(source), str(bytecode), doraise=True)
    source.write_text(BASE)
    assert [(leak.kind, leak.where) for leak in scan(origin)] == [
        (LeakKind.BYTECODE, "__pycache__/shop.cpython-311.pyc")
    ]


@pytest.mark.parametrize(
    "mode", [py_compile.PycInvalidationMode.CHECKED_HASH, py_compile.PycInvalidationMode.TIMESTAMP]
)
def test_bytecode_that_fits_its_source_is_no_leak(origin, mode):
    source, bytecode = origin.folder / "shop.py", origin.folder / "__pycache__/shop.cpython-311.pyc"
    py_compile.compile(str(source), str(bytecode), doraise=True, invalidation_mode=mode)
    assert scan(origin) == []


def test_what_a_higher_layer_hides_is_no_leak(origin, tmp_path):
    below = tmp_path / "below"
    below.mkdir()
    (below / "shop.py").write_text(FIXED)
    assert scan_layers(origin.task, [below, origin.folder]) == []
    assert scan_layers(origin.task, [origin.folder, below]) != []


def test_nothing_in_the_store_is_obeyed(origin, tmp_path):
    """Its configuration could name programs; git never reads it."""
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "core.alternateRefsCommand", "core.pager", "core.sshCommand"):
        origin.git("config", key, str(trap))
    (origin.folder / ".git/hooks").mkdir(exist_ok=True)
    shutil.copy(trap, origin.folder / ".git/hooks/post-checkout")
    assert scan(origin) == []
    assert not Path(tmp_path / "sprung").exists()


def test_an_object_that_cannot_be_read_is_no_proof(origin):
    """git comes to it midway, and ends."""
    (origin.folder / "large.txt").write_bytes(bytes(range(256)) * 4)
    held = origin.git("hash-object", "-w", "large.txt")
    broken = origin.folder / f".git/objects/{held[:2]}/{held[2:]}"
    content = broken.read_bytes()
    broken.chmod(0o644)
    broken.write_bytes(content[:-20])
    [leak] = [leak for leak in scan(origin) if leak.where == ".git/objects/"]
    assert leak.what.startswith("nothing can be proved: git cat-file")


def test_a_store_of_which_git_complains_at_length_does_not_stop_the_scan(origin):
    for number in range(2_000):
        (origin.folder / f".git/objects/pack/pack-{number:040x}.idx").write_bytes(b"broken")
        (origin.folder / f".git/objects/pack/pack-{number:040x}.pack").write_bytes(b"broken")
    assert scan(origin) == []
