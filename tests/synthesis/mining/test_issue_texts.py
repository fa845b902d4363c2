"""Tests of issue texts."""

import json

import pytest

from support.repositories.histories import commit, git, start
from turnsmith.errors import UsageError
from turnsmith.git.history import open_history, read_commits, read_merged_messages
from turnsmith.synthesis.mining.issues import find_issue, read_export

ROWS = [
    {"number": 7, "title": "total() fails", "body": "With a missing price.\r\nAlways."},
    {"number": 9, "title": "Fix totals", "body": "Adds a check", "pull_request": {"url": "x"}},
]


@pytest.fixture
def threads(tmp_path):
    file = tmp_path / "issues.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return read_export(file)


@pytest.mark.parametrize(
    ("message", "source", "begin"),
    [
        ("Handle it (#9)\n\nFixes #7", "issue", "total() fails\n\nWith a missing price.\nAlways."),
        ("Merge pull request #9 from a/b\n\nHandle it", "pull request", "Fix totals\n\nAdds a check"),
        ("Handle it (#8)", "commit message", "Handle it\n"),
        ("Handle it (#9)\n\nAs in #7", "pull request", "Fix totals\n\nAdds a check"),
        ("Handle it\n\nAs in #7", "issue", "total() fails\n\nWith a missing price.\nAlways."),
        ("Handle it, fixes python/cpython#7", "commit message", "Handle it, fixes python/cpython#7\n"),
    ],
)
def test_issues_are_preferred_to_pull_requests_and_messages(threads, message, source, begin):
    issue = find_issue(message, threads)
    assert issue.source == source
    assert issue.text.startswith(begin)


def test_text_added_by_tools_is_removed():
    message = "Merge pull request #3 from a/b\n\nAdd up (#4)\n\nWhy it is so.\n\n"
    trailers = "Co-authored-by: B <b@c.org>\nSigned-off-by: C\nChange-Id: I1"
    assert find_issue(message + trailers, {}).text == "Add up\n\nWhy it is so.\n"


def test_a_merge_without_text_gives_no_text():
    assert find_issue("Merge branch '3.0.x'", {}).text == "\n"


def test_a_merge_uses_the_merged_messages(tmp_path):
    shop = start(tmp_path / "shop")
    commit(shop, {"a": "1"}, "Begin")
    git(shop, "checkout", "--quiet", "-b", "more")
    commit(shop, {"b": "1"}, "Add b")
    commit(shop, {"c": "1"}, "Add c, too")
    git(shop, "checkout", "--quiet", "main")
    git(shop, "merge", "--quiet", "--no-ff", "--message", "Merge branch 'more'", "more")
    history = open_history(shop)
    [merge] = read_commits(history)
    assert read_merged_messages(history, merge).split("\n\n") == ["Add b", "Add c, too"]


def test_short_texts_are_vague():
    assert find_issue("Fix #12", {}).is_vague
    assert not find_issue(
        "Add up what has a price, since a price may be missing and then total ends with an error", {}
    ).is_vague


@pytest.mark.parametrize("text", ["{", '[{"title": "x"}]', "[1]"])
def test_a_malformed_export_is_refused(tmp_path, text):
    file = tmp_path / "issues.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"issues\.json.*(not valid JSON|give JSON or JSONL)"):
        read_export(file)
