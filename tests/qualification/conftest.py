"""Task with a real history of three commits: the second is the base and the third the fix."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.repositories.shop_texts import BASE, FIXED, HIDDEN, OLD, VISIBLE
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import Task


@dataclass
class Origin:
    """Checkout at its base commit."""

    folder: Path
    base: str
    fix: str

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()

    def forget_the_fix(self) -> None:
        """Remove the fix from the history, as a careful image maker does."""
        self.git("reflog", "expire", "--expire=now", "--all")
        self.git("gc", "--prune=now", "--quiet")

    @property
    def task(self) -> Task:
        return Task(
            instance_id="shop-1",
            repo="shop",
            base_commit=self.base,
            problem_statement="total ignores its bound",
            FAIL_TO_PASS=["test_shop.py::test_bounded_sum_of_many_prices"],
            PASS_TO_PASS=["test_shop.py::test_small"],
            patch=make_patch("shop.py", BASE, FIXED),
            test_patch=make_patch("test_shop.py", VISIBLE, VISIBLE + HIDDEN),
            layers=[self.folder.name],
        )


@pytest.fixture(scope="session")
def made_origin(tmp_path_factory) -> Origin:
    folder = tmp_path_factory.mktemp("origin") / "shop"
    folder.mkdir()
    origin = Origin(folder, "", "")
    origin.git("init", "--quiet", "--initial-branch=main")
    for text, tests in ((OLD, ""), (BASE, VISIBLE), (FIXED, VISIBLE + HIDDEN)):
        (folder / "shop.py").write_text(text)
        (folder / "test_shop.py").write_text(tests)
        origin.git("add", "--all")
        origin.git("commit", "--quiet", "--message", "work")
    origin.base, origin.fix = origin.git("rev-parse", "HEAD~1"), origin.git("rev-parse", "HEAD")
    origin.git("reset", "--quiet", "--hard", origin.base)
    origin.forget_the_fix()
    (folder / ".git/ORIG_HEAD").unlink(missing_ok=True)
    return origin


@pytest.fixture
def origin(made_origin, tmp_path) -> Origin:
    """Copy the checkout for each test; the fix is removed from it."""
    folder = tmp_path / "shop"
    shutil.copytree(made_origin.folder, folder)
    return Origin(folder, made_origin.base, made_origin.fix)


@pytest.fixture
def commit_fix(origin):
    """Return a function that makes the fix again, as a commit without a ref, and returns its id."""

    def commit() -> str:
        (origin.folder / "shop.py").write_text(FIXED)
        origin.git("add", "--all")
        tree = origin.git("write-tree")
        fix = origin.git("commit-tree", tree, "-p", origin.base, "-m", "fix")
        origin.git("reset", "--quiet", "--hard", origin.base)
        (origin.folder / ".git/ORIG_HEAD").unlink(missing_ok=True)
        shutil.rmtree(origin.folder / ".git/logs", ignore_errors=True)
        return fix

    return commit
