"""Any order of writes, snapshots, restores and forks, against trees that are plainly copied."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_trees import files_of, rebuild
from turnsmith.sandboxes.layers import copy_merged

LISTING = r"""
find . ! -name . -printf '%y %m %P %l\n' | sort
find . -type f -print0 | sort -z | xargs -0 -r sha256sum
"""

names = st.sampled_from(["a", "b", "c", "d/a", "d/b", "d/e/a", "d", "d/e", "pkg", "pkg/a.py", "pkg/sub", "README"])
operations = st.one_of(
    st.tuples(st.just("write"), names, st.sampled_from(["", "one\n", "two\n", "three"])),
    st.tuples(st.just("append"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("mkdir"), names),
    st.tuples(st.just("link"), names, names),
    st.tuples(st.just("mode"), names, st.sampled_from(["755", "640", "711"])),
    st.tuples(st.just("replace"), names),
    st.sampled_from([("snapshot",), ("restore",), ("fork",), ("sibling",), ("diff",)]),
)


def to_command(operation):
    """In a shell, alike for the sandbox and the model; what cannot be done changes nothing in either."""
    name, *arguments = operation
    return {
        "write": "rm -rf {0}; mkdir -p $(dirname {0}) && printf '{1}' > {0}",
        "append": "[ -d {0} ] || [ -L {0} ] || echo more >> {0}",
        "delete": "rm -rf {0}",
        "rename": "[ -d {1} ] || mv -T {0} {1}",
        "mkdir": "mkdir -p {0}",
        "link": "rm -rf {0}; ln -s {1} {0}",
        "mode": "[ -L {0} ] || [ -d {0} ] || chmod {1} {0}",
        "replace": "rm -rf {0}; mkdir -p {0} && echo inside > {0}/file",
    }[name].format(*arguments)


class Model:
    """Plain trees beside the sandboxes, copied where those fork."""

    def __init__(self, folder, sandbox, layers):
        self.folder, self.layers, self.sandbox, self.num_trees = folder, layers, sandbox, 0
        self.siblings, self.snapshots = [], []
        self.tree = self.new_tree()
        copy_merged(layers, self.tree)

    def new_tree(self, source=None):
        self.num_trees += 1
        tree = self.folder / str(self.num_trees)
        if source:
            subprocess.run(["cp", "-a", source, tree], check=True)
        return tree

    async def take(self, operation):
        name = operation[0]
        if name == "snapshot":
            self.snapshots.append((await self.sandbox.snapshot(), self.new_tree(self.tree)))
        elif name == "restore" and self.snapshots:
            snapshot, tree = self.snapshots[-1]
            await self.sandbox.restore(snapshot)
            self.tree = self.new_tree(tree)
        elif name == "fork":
            (fork,) = await self.sandbox.fork(1)
            self.siblings.append((fork, self.new_tree(self.tree)))
        elif name == "sibling" and self.siblings:
            self.siblings.append((self.sandbox, self.tree))
            self.sandbox, self.tree = self.siblings.pop(0)
        elif name == "diff":
            await self.check_patch(self.sandbox, self.tree)
        elif name not in ("restore", "sibling"):
            command = to_command(operation)
            await self.sandbox.exec(command, timeout_s=30)
            subprocess.run(["bash", "-c", command], cwd=self.tree, capture_output=True)

    async def check_patch(self, sandbox, tree):
        """The patch makes of the layers what git sees in the tree."""
        rebuilt = self.new_tree()
        rebuild(self.layers, await sandbox.diff(), rebuilt)
        assert files_of(rebuilt) == files_of(tree)

    async def check_all(self):
        for sandbox, tree in [*self.siblings, (self.sandbox, self.tree)]:
            seen = (await sandbox.exec(LISTING, timeout_s=30)).output
            assert seen == subprocess.run(["bash", "-c", LISTING], cwd=tree, capture_output=True, check=True).stdout
            await self.check_patch(sandbox, tree)

    async def close(self):
        for snapshot, _ in self.snapshots:
            snapshot.drop()
        for sandbox, _ in [*self.siblings, (self.sandbox, self.tree)]:
            await sandbox.stop()


@pytest.mark.slow
@settings(
    max_examples=25, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=st.lists(operations, min_size=3, max_size=25))
async def test_any_history_leaves_what_plain_copies_leave(provider, spec, tmp_path, steps):
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        model = Model(Path(folder), await provider.start(spec), spec.layers)
        for step in steps:
            await model.take(step)
        await model.check_all()
        await model.close()
