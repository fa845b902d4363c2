import shutil
import subprocess
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.git.one_commit import EXECUTABLE, TreeFile, write_history
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer, write_shared_layer

SECRET = "return first - second  # the clean line"


@pytest.fixture
def layers(tmp_path):
    tree = to_tree({f"pkg{i % 3}/module{i}.py": f"x = {i}\n" * 50 for i in range(20)}) | {
        "pkg0/bug.py": TreeFile(SECRET.encode()),
        "pkg0.d/a": TreeFile(b"sorts between folder and file"),
        "run.sh": TreeFile(b"#!/bin/sh\n", EXECUTABLE),
        "pkg1/deep/er/b.py": TreeFile("größe = 1\n".encode()),
    }
    write_shared_layer(tmp_path / "shared", tree)
    write_bug_layer(tmp_path / "bug", tree, {"pkg0/bug.py": b"return second - first"})
    return tmp_path


def stack(layers):
    shutil.copytree(layers / "shared", layers / "stacked")
    shutil.copytree(layers / "bug", layers / "stacked", dirs_exist_ok=True)
    return layers / "stacked"


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_git_status_of_the_stacked_tree_is_clean(layers):
    tree = stack(layers)
    git(tree, "fsck", "--strict", "--full")
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "rev-list", "--all", "--count").strip() == "1"
    assert git(tree, "ls-files", "run.sh", "--stage").startswith("100755")


def test_the_history_holds_no_clean_text(layers):
    files = [path for path in (layers / "bug").rglob("*") if path.is_file()]
    contents = [zlib.decompress(file.read_bytes()) for file in files if file.parent.parent.name == "objects"]
    contents += [file.read_bytes() for file in files]
    assert len(contents) > 40
    assert not any(b"first - second" in content for content in contents)
    assert not any("hooks" in file.parts for file in files)


def test_the_base_commit_depends_only_on_the_tree(tmp_path):
    tree = to_tree({"b.py": "1\n", "a/c.py": "2\n"})
    first = write_history(tmp_path / "one", tree)
    assert first == write_history(tmp_path / "two", dict(reversed(tree.items())))
    assert first != write_history(tmp_path / "three", to_tree({"b.py": "1\n", "a/c.py": "3\n"}))


def test_git_agrees_on_the_commit_id_of_the_tree(tmp_path, layers):
    tree = stack(layers)
    expected = git(tree, "rev-parse", "HEAD^{tree}")
    (tree / ".git/index").unlink()
    git(tree, "add", "--all")
    assert git(tree, "write-tree") == expected


line = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=8)


@given(st.lists(line), st.lists(line), st.booleans(), st.booleans())
def test_git_apply_restores_the_clean_text(tmp_path_factory, before, after, newline, other_newline):
    before, after = "\n".join(before) + "\n" * newline, "\n".join(after) + "\n" * other_newline
    if before == after or not before or not after:
        return
    folder = tmp_path_factory.mktemp("patch")
    (folder / "a.py").write_bytes(before.encode())
    patch = make_patch("a.py", before, after)
    subprocess.run(["git", "apply", "-"], cwd=folder, check=True, input=patch.encode())
    assert (folder / "a.py").read_bytes() == after.encode()
