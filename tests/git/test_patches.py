"""Patches of git, with and without hunks, of text and binary files."""

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnsmith.git.patches import parse_diff, render_diff

LINES = st.sampled_from(["x = 1", "", " ", "@@ -1 +1 @@", "diff --git a/x b/x", "--- a/x", "+++ b/x", "\\ No", "a\rb"])
TEXTS = st.builds(lambda lines, end: "\n".join(lines).encode() + end, st.lists(LINES), st.sampled_from([b"", b"\n"]))
BINARIES = st.binary(max_size=40).map(lambda content: b"\0" + content)
FILES = st.tuples(TEXTS | BINARIES, st.booleans())
"""Content and executable flag."""
TREES = st.dictionaries(st.sampled_from(["a.py", "tests/b.py", "tests/data/c d.bin", "e"]), FILES, max_size=4)
LONG = (b"x = 1\n" * 40, False)


def git(folder, *arguments, given=b""):
    return subprocess.run(["git", *arguments], cwd=folder, input=given, capture_output=True, check=True).stdout.decode()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "--quiet")
    return folder


def write_branch(name, files):
    """Return the commands of `git fast-import` for a branch with these files."""
    yield b"reset refs/heads/%s\ncommit refs/heads/%s\n" % (name, name)
    yield b"committer Ann <ann@example.org> 0 +0000\ndata 0\ndeleteall\n"
    for path, (content, is_executable) in files.items():
        mode = b"100755" if is_executable else b"100644"
        yield b"M %s inline %s\ndata %d\n%s\n" % (mode, path.encode(), len(content), content)


def compare(repository, *options):
    return git(repository, "diff", "--find-renames", *options, "before", "after")


def read_names(repository, letters):
    """Return the changed files with one of these status letters, in git's order."""
    return compare(repository, "--name-only", "-z", f"--diff-filter={letters}").split("\0")[:-1]


@settings(max_examples=30)
@given(TREES, TREES)
@example({}, {"tests/__init__.py": (b"", False)})
@example({"tests/data/one.sql": LONG}, {"tests/data/two.sql": LONG})
@example({"run.py": LONG}, {"run.py": (LONG[0], True)})
@example({}, {"tests/image.png": (b"\0\1\2", False)})
def test_every_patch_of_git_is_read_to_its_end_and_written_unchanged(repository, before, after):
    commands = [*write_branch(b"before", before), *write_branch(b"after", after)]
    git(repository, "fast-import", "--quiet", "--force", given=b"".join(commands))
    if patch := compare(repository, "--binary"):
        files = parse_diff(patch)
        assert render_diff(files) == patch
        assert [file.path for file in files] == read_names(repository, "ADMRT")
        assert [file.path for file in files if file.is_deleted] == read_names(repository, "D")
