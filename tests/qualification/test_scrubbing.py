"""A new history on top hides all that leaked, from the scan and from git in a sandbox alike."""

import json
import subprocess

import pytest

from turnsmith.errors import UsageError
from turnsmith.qualification.scanning import scan_layers
from turnsmith.recipes.scrubbing import scrub_task_set
from turnsmith.recipes.task_sets import read_task_set
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.tasks.dataset import layer_paths, save_tasks
from turnsmith.tracking import Silence


@pytest.fixture
def leaking(origin, commit_fix, tmp_path):
    """A task file whose only task leaks in five ways by its history."""
    fix = commit_fix()
    origin.git("update-ref", "refs/heads/solution", fix)
    origin.git("remote", "add", "origin", "https://example.org/shop.git")
    (origin.folder / ".git/FETCH_HEAD").write_text(f"{fix}\tbranch 'main'\n")
    subprocess.run(["git", "init", "--quiet", origin.folder / "vendor"], check=True)
    (origin.folder / "run.sh").write_text("#!/bin/sh\n")
    (origin.folder / "run.sh").chmod(0o755)
    (origin.folder / "link").symlink_to("shop.py")
    origin.git("add", "run.sh", "link")
    origin.git("commit", "--quiet", "--amend", "--no-edit")
    origin.base = origin.git("rev-parse", "HEAD")
    (origin.folder / "untracked.txt").write_text("not of the commit\n")
    save_tasks(tmp_path, [origin.task])
    return read_task_set("shop", tmp_path)


async def test_a_scrubbed_task_is_clean_and_the_same_for_the_rest(leaking, tmp_path, provider):
    [(old, old_layers)] = leaking.with_layers()
    assert len(scan_layers(old, old_layers)) > 5
    scrubbed = scrub_task_set(leaking, tmp_path / "out", Silence())
    clean = read_task_set("clean", tmp_path / "out")
    [(task, layers)] = clean.with_layers()
    assert scrubbed == [task] and task.meta["scrubbed_from"] == old.base_commit
    assert layers[:-1] == old_layers and scan_layers(task, layers) == []
    assert (task.patch, task.FAIL_TO_PASS) == (old.patch, old.FAIL_TO_PASS)
    sandbox = await provider.start(SandboxSpec(layers))
    try:
        seen = await sandbox.exec(
            "git rev-parse HEAD; git rev-list --all --objects | wc -l; git status --porcelain; git fsck --strict; "
            "git ls-files -s run.sh link | cut -c1-6; git remote; git reflog; ls -A vendor/.git",
            timeout_s=30,
        )
    finally:
        await sandbox.stop()
    commit, _, *rest = seen.output.decode().splitlines()
    assert commit == task.base_commit
    assert rest == ["?? untracked.txt", "120000", "100755"]


def test_what_is_clean_is_left_as_it_is(origin, tmp_path):
    save_tasks(tmp_path, [origin.task])
    assert scrub_task_set(read_task_set("shop", tmp_path), tmp_path / "out", Silence()) == []
    [row] = (tmp_path / "out/tasks.jsonl").read_text().splitlines()
    assert json.loads(row)["base_commit"] == origin.base
    assert layer_paths(read_task_set("x", tmp_path / "out").tasks[0], tmp_path / "out/tasks.jsonl")[0].samefile(
        origin.folder
    )


def test_nothing_is_written_over(leaking, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        scrub_task_set(leaking, tmp_path, Silence())
