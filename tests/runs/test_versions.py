import os
import platform
import subprocess
from importlib.metadata import version

from turnsmith import __version__
from turnsmith.runs.folder import RunFolder, append_record, write_json
from turnsmith.runs.versions import Versions, find_commit, find_versions, read_versions, record_versions


def test_versions_are_those_of_what_is_installed_and_of_this_machine():
    found = find_versions()
    assert found["turnsmith"].startswith(__version__)
    assert found | {"turnsmith": ""} == {
        "turnsmith": "",
        "torch": version("torch"),
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "kernel": os.uname().release,
    }


def test_a_process_writes_its_versions_down_unless_the_last_one_had_the_same(tmp_path):
    folder = RunFolder(tmp_path)
    record_versions(folder)
    record_versions(folder)
    assert [each.software for each in read_versions(folder)] == [find_versions()]
    other = Versions(since="2026-01-01 00:00:00", software=find_versions() | {"torch": "1.0"})
    append_record(folder.versions, other)
    record_versions(folder)
    assert [each.software["torch"] for each in read_versions(folder)] == [version("torch"), "1.0", version("torch")]


def test_what_an_older_turnsmith_did_in_a_folder_has_no_versions(tmp_path):
    folder = RunFolder(tmp_path)
    write_json(folder.iteration("rft", 0).metrics, {})
    record_versions(folder)
    assert [each.software for each in read_versions(folder)] == [{}, find_versions()]
    assert "versions" in str(read_versions(folder)[0])


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True).stdout


def test_a_checkout_is_known_by_its_commit_and_by_what_was_changed_since(tmp_path):
    assert find_commit(tmp_path) == ""
    git(tmp_path, "init", "-q")
    (tmp_path / "code").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "tag", "v1")
    commit = git(tmp_path, "rev-parse", "HEAD")[:12]
    assert find_commit(tmp_path) == f"commit {commit}"
    (tmp_path / "code").write_text("2")
    assert find_commit(tmp_path) == f"commit {commit}, changed"


def test_a_commit_that_git_cannot_name_is_unknown(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    assert find_commit(tmp_path) == "commit unknown"
    monkeypatch.setenv("PATH", "")
    assert find_commit(tmp_path) == "commit unknown"
