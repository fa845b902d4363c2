"""Tests of the selection of commits."""

import pytest

from support.repositories.histories import commit, git, make_shop, start
from turnsmith.errors import UsageError
from turnsmith.git.history import find_date, find_version, make_diff, open_history, read_commits, read_snapshot
from turnsmith.git.one_commit import SYMLINK
from turnsmith.synthesis.mining.candidates import Bounds, FixCommit, consider


@pytest.fixture
def shop(tmp_path):
    return make_shop(tmp_path / "shop")


def reasons_of(folder, bounds=None):
    commits = read_commits(open_history(folder, "a/shop"))
    return [
        each if isinstance(each, str) else "" for each in (consider(commit, bounds or Bounds()) for commit in commits)
    ]


def test_commits_that_change_source_and_tests_are_candidates(shop):
    assert reasons_of(shop) == ["no source changed", "no source changed", ""]


def test_large_changes_are_rejected(shop):
    assert reasons_of(shop, Bounds(max_lines=1))[-1] == "more than 1 source lines"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"src/shop/prices.py": "x = 1\n"}, "no tests changed"),
        (
            {"src/shop/fast.c": "int a;\n", "src/shop/prices.py": "x\n", "tests/test_a.py": "x\n"},
            "compiled source changed",
        ),
        ({"src/shop/prices.py": "x = 1\n", "tests/conftest.py": "x = 1\n"}, "no tests changed"),
        ({"src/shop/prices.py": "x = 1\n", "tests/test_prices.py": None}, "no tests changed"),
        ({"docs/a.md": "x\n", "tests/test_a.py": "x\n"}, "no source changed"),
        ({"src/shop/prices.py": "x = 1\n", "tests/test_a.py": "x\n", "CHANGES.rst": "x\n"}, ""),
    ],
)
def test_reasons_for_rejection(shop, files, reason):
    commit(shop, files, "FixCommit")
    assert reasons_of(shop)[0] == reason


def test_a_merge_contains_all_merged_changes(shop):
    git(shop, "checkout", "--quiet", "-b", "side")
    commit(shop, {"src/shop/prices.py": "x = 1\n"}, "One")
    commit(shop, {"tests/test_prices.py": "def test_x(): pass\n"}, "Two")
    git(shop, "checkout", "--quiet", "main")
    git(shop, "merge", "--quiet", "--no-ff", "-m", "Merge pull request #3 from a/side", "side")
    newest = next(read_commits(open_history(shop, "a/shop")))
    candidate = consider(newest, Bounds())
    assert newest.message.startswith("Merge")
    assert isinstance(candidate, FixCommit)
    assert candidate.test_files == ("tests/test_prices.py",)


def test_patches_contain_only_their_files(shop):
    history = open_history(shop, "a/shop")
    candidate = next(
        each for each in (consider(one, Bounds()) for one in read_commits(history)) if isinstance(each, FixCommit)
    )
    gold, tests = (make_diff(history, candidate.commit, paths) for paths in (candidate.source, candidate.tests))
    assert "+++ b/src/shop/prices.py" in gold
    assert "tests/" not in gold
    assert "+++ b/tests/test_prices.py" in tests
    assert make_diff(history, candidate.commit, ()) == ""


def test_trees_contain_links_and_executables(shop):
    (shop / "link").symlink_to("src")
    (shop / "run.sh").write_text("true\n")
    (shop / "run.sh").chmod(0o755)
    tree = read_snapshot(open_history(shop), commit(shop, {}, "More")).tree
    assert tree["link"].content == b"src"
    assert tree["link"].mode == SYMLINK
    assert tree["run.sh"].mode == 0o100755


def test_a_partial_clone_is_reported(shop, tmp_path):
    (shop / "big.txt").write_text("x" * 5000)
    commit(shop, {}, "Grow")
    git(shop, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:limit=2k", f"file://{shop}", "partial")
    git(tmp_path / "partial", "remote", "remove", "origin")
    snapshot = read_snapshot(open_history(tmp_path / "partial"), "HEAD")
    assert snapshot.absent == ("big.txt",)
    assert "src/shop/prices.py" in snapshot.tree


def test_the_version_comes_from_the_last_tag(shop):
    history = open_history(shop)
    assert find_version(history, "HEAD") == "0"
    git(shop, "tag", "v2.3.1", "HEAD~1")
    assert find_version(history, "HEAD") == "2.3.1"


def test_the_date_of_a_commit(shop):
    assert find_date(open_history(shop), "HEAD") == "2024-05-03T12:00:00+00:00"


def test_a_missing_repository_is_reported(tmp_path):
    with pytest.raises(UsageError, match="git repository"):
        open_history(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        open_history(tmp_path / "nowhere")


def test_an_empty_repository_is_reported(tmp_path):
    with pytest.raises(UsageError, match=r"without a commit .* commit something"):
        open_history(start(tmp_path / "empty"))


def test_a_folder_inside_a_repository_is_refused(shop):
    (shop / "empty").mkdir()
    with pytest.raises(UsageError, match=rf"give {shop},"):
        open_history(shop / "empty")


def test_an_unknown_revision_is_reported(shop):
    with pytest.raises(UsageError, match=r"--revision nope: .*give a commit"):
        next(read_commits(open_history(shop), "nope"))


def test_a_shallow_clone_is_reported(shop, tmp_path):
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{shop}", "shallow")
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        open_history(tmp_path / "shallow")
