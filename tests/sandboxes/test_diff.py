"""Patch of a sandbox: applied by git to the base, it rebuilds the same tree."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.repositories.git_trees import files_of, rebuild
from turnsmith.git.diff import MAX_PATCH_BYTES, Change, compare, format_patch, read_file
from turnsmith.git.layers import Place, copy_merged
from turnsmith.git.one_commit import TreeFile

EDITS = {
    "add": "echo new > added.txt; mkdir -p p/q; echo deep > p/q/deep.txt",
    "modify": "sed -i 's/line 25/LINE 25/' pkg/b.py; echo more >> README",
    "delete": "rm README pkg/sub/c.py",
    "delete a directory": "rm -r pkg",
    "replace a directory": "rm -r pkg; mkdir pkg; echo other > pkg/other.py",
    "replace a directory by a file": "rm -r pkg; echo file > pkg",
    "replace a file by a directory": "rm README; mkdir README; echo x > README/x",
    "rename": "mv pkg/b.py pkg/renamed.py; mv pkg/sub moved",
    "link": "ln -s /etc/passwd outside; ln -sfn ../README pkg/l; ln -sfn nowhere link",
    "link becomes file": "rm link; echo real > link",
    "file becomes link": "rm README; ln -s pkg/a.py README",
    "mode": "chmod +x README; chmod -x,u+x run.sh; chmod 640 pkg/a.py",
    "binary": "head -c 3000 /dev/urandom > noise; printf '\\0' >> logo.bin; rm new.txt",
    "binary becomes text": "echo text > logo.bin",
    "latin-1 is binary to a patch in Unicode": "printf 'caf\\351\\n' > cafe.txt",
    "no newline at the end": "printf 'no newline' > README; printf 'x\\r\\ny' > crlf",
    "odd names": "touch 'a b' 'tab\\tq' '\"quoted\"' 'é' ./-dash; "
    "printf x > \"$(printf 'nl\\nname')\"; echo y > \"$(printf '\\377')\"",
    "empty file": "touch empty; : > README",
    "touched only": "touch README pkg; echo x > README; echo hello > README; mkdir empty",
}


@pytest.mark.parametrize("edit", EDITS)
async def test_git_applies_the_patch_and_gets_the_same_tree(edit, run, sandbox, layers, tmp_path):
    assert (await run(EDITS[edit])).exit_code == 0
    patch = await sandbox.diff()
    assert patch == await sandbox.diff()
    await run("chmod -R u+rwX .")
    rebuild(layers, patch, tmp_path / "rebuilt")
    (tmp_path / "seen").mkdir()
    archive = await run("tar cf - .")
    subprocess.run(["tar", "xf", "-", "-C", tmp_path / "seen"], input=archive.output, check=True)
    assert files_of(tmp_path / "rebuilt") == files_of(tmp_path / "seen")


async def test_an_untouched_tree_has_an_empty_patch(sandbox, run):
    await run("cat README; ls -R; git status")
    assert await sandbox.diff() == ""


async def test_what_tools_leave_behind_is_not_in_the_patch(sandbox, run):
    await run("git init -q .; mkdir -p pkg/__pycache__ .pytest_cache .hypothesis pkg/.GIT")
    await run("echo x | tee pkg/x.pyc pkg/__pycache__/y .pytest_cache/z .hypothesis/w pkg/.GIT/config")
    await run("mkfifo pipe; python -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    assert await sandbox.diff() == ""


async def test_git_inside_has_no_say(sandbox, run):
    """Attributes, filters and configuration of the agent change nothing in the patch."""
    await run("git init -q .; git config diff.external /bin/true; git config core.fileMode false")
    await run("echo '* binary diff=evil filter=evil' > .gitattributes; echo '*' > .gitignore; echo more >> README")
    patch = await sandbox.diff()
    assert "+more\n" in patch
    assert "GIT binary patch" not in patch


async def test_what_the_host_may_not_read_is_left_out_and_the_rest_stays(sandbox, run):
    """Root may read everything; for an ordinary user, what the agent locks is as it was."""
    await run("echo x > pkg/x; mkdir closed; echo y > closed/y; echo z >> README; echo more >> new.txt")
    await run("chmod 000 closed README")
    patch = await sandbox.diff()
    assert {letter for letter in "yz" if f"+{letter}\n" in patch} == (set("yz") if os.geteuid() == 0 else set())
    assert patch.count("diff --git") == (4 if os.geteuid() == 0 else 2)
    assert "+x\n" in patch and "+more\n" in patch


async def test_a_link_is_never_followed(sandbox, run, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("hunter2\n")
    await run(f"rm -r pkg; ln -s {secret} pkg; ln -s {secret}/key key; ln -s / root")
    patch = await sandbox.diff()
    assert "hunter2" not in patch
    assert f"+{secret}/key\n" in patch


async def test_a_huge_file_is_left_out_and_the_rest_stays(sandbox, run):
    await run("head -c 20000000 /dev/zero > huge; echo small > small")
    patch = await sandbox.diff()
    assert "+small" in patch
    assert "huge" not in patch


@pytest.mark.parametrize("num_bytes", [1_300_000, 3_000_000])
async def test_a_patch_that_no_grader_takes_is_cut_and_marked(sandbox, run, num_bytes):
    await run(f"head -c {num_bytes} /dev/urandom > noise; echo small > small")
    patch = await sandbox.diff()
    assert patch.startswith("no patch: ") == (num_bytes > MAX_PATCH_BYTES)
    assert "+small" in patch and (len(patch) > MAX_PATCH_BYTES / 2) == (num_bytes < MAX_PATCH_BYTES)


def test_files_without_number_are_not_even_shown_to_git(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    changes = [Change(b"%d" % number, None, TreeFile(b"")) for number in range(60_000)]
    assert format_patch(changes).startswith("no patch: a patch of 60000 files is larger than")


async def test_a_deep_tree_does_not_break_the_diff(sandbox, run):
    await run("(for i in $(seq 150); do mkdir -p d; cd d; done; echo x > bottom); echo y > top")
    assert "+y\n" in await sandbox.diff()


names = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=8)
contents = st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=40).map(str.encode))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(names, st.tuples(contents, contents), max_size=4))
def test_any_change_of_any_file_survives_git_apply(tmp_path, files):
    """Against a plain reference: write old, apply, compare with new."""
    shutil.rmtree(tmp_path, ignore_errors=True)
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, position in ((old, 0), (new, 1)):
        folder.mkdir(parents=True)
        for name, pair in files.items():
            if name not in (".", "..") and len(name.encode()) < 200 and pair[position] is not None:
                (folder / name).write_bytes(pair[position])
    tree = os.open(new, os.O_RDONLY)
    try:
        patch = format_patch(compare((old,), Place(tree), is_stacked=False))
    finally:
        os.close(tree)
    rebuild((old,), patch, tmp_path / "rebuilt")
    patched = {name: seen for name, seen in files_of(new).items() if not name.endswith(b".pyc")}
    assert {
        name: seen for name, seen in files_of(tmp_path / "rebuilt").items() if not name.endswith(b".pyc")
    } == patched


def test_a_failure_of_the_machine_is_not_taken_for_an_absent_file(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "new" / "folder").mkdir(parents=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    tree = os.open(tmp_path / "new", os.O_RDONLY)
    free = os.open(tmp_path / "old", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            compare((tmp_path / "old",), Place(tree), is_stacked=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(tree)


def test_layers_left_by_a_sandbox_can_be_stacked_again(tmp_path):
    """Opaque directories and whiteouts of a lower layer hide what is below them."""
    bottom, middle = tmp_path / "bottom", tmp_path / "middle"
    (bottom / "d").mkdir(parents=True)
    (bottom / "d" / "old").write_text("old\n")
    (middle / "d").mkdir(parents=True)
    (middle / "d" / "new").write_text("new\n")
    os.setxattr(middle / "d", "user.overlay.opaque", b"y")
    copy_merged((bottom, middle), tmp_path / "copy")
    assert files_of(tmp_path / "copy") == {b"d/new": (False, b"new\n")}


@pytest.mark.parametrize("replace", [os.mkdir, os.mkfifo], ids=["directory", "named pipe"])
def test_a_file_that_was_replaced_since_it_was_looked_at_is_left_out(tmp_path, replace):
    replace(tmp_path / "was a file")
    root = os.open(tmp_path, os.O_RDONLY)
    num_open = len([*Path("/proc/self/fd").iterdir()])
    assert read_file(Place(root, "./was a file"), 100) is None
    assert len([*Path("/proc/self/fd").iterdir()]) == num_open
    os.close(root)
