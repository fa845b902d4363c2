"""Tests of mining with a real git repository."""

import json

import pytest

from support.repositories.histories import PROJECT, commit, make_shop, start
from turnsmith.environments.equipping import EnvironmentOptions
from turnsmith.synthesis.mining.bases import UNBUILT
from turnsmith.synthesis.mining.mining import KEPT, Mined, Search, is_settled, measure_progress
from turnsmith.tasks.dataset import load_tasks


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fix_with_its_test_becomes_a_task(tmp_path, turnsmith):
    shop, out = make_shop(tmp_path / "shop"), tmp_path / "tasks"
    mined = turnsmith("tasks", "mine", str(shop), "--name", "a/shop", "--out", str(out), "--json")
    assert mined.exit_code == 0, mined.output
    assert json.loads(mined.stdout)["reasons"] == {"kept": 1, "no source changed": 2}
    (task,) = load_tasks(out)
    assert task.FAIL_TO_PASS == ["tests/test_prices.py::test_without_a_price"]
    assert task.PASS_TO_PASS == ["tests/test_prices.py::test_total"]
    assert "TypeError" in task.problem_statement
    assert "test_without_a_price" not in (out / task.layers[0] / "tests/test_prices.py").read_text()
    checked = turnsmith("tasks", "qualify", str(out), "--repeats", "2", "--json")
    assert [record["verdict"] for record in json.loads(checked.stdout)] == ["qualified"], checked.output
    again = turnsmith("tasks", "mine", str(shop), "--name", "a/shop", "--out", str(out), "--json")
    assert json.loads(again.stdout)["num_tasks"] == 1
    other = turnsmith("tasks", "mine", str(shop), "--name", "b/shop", "--out", str(out))
    assert other.exit_code == 2 and "b/shop" in other.output
    (out / "tasks.jsonl").unlink()
    lost = turnsmith("tasks", "mine", str(shop), "--name", "a/shop", "--out", str(out), "--json")
    assert json.loads(lost.stdout)["reasons"] == {"kept": 1, "no source changed": 2}
    assert load_tasks(out) == [task]
    refused = turnsmith("tasks", "qualify", str(out), "--sandbox", "subprocess")
    assert refused.exit_code == 2
    assert "--sandbox.kind local" in refused.output


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--python", "banana"), "Python banana"),
        (("--test-command", "x", "--log-parser", "nope"), "log parser 'nope'"),
        (("--log-parser", "unittest"), "add --test-command"),
        (("--out", "README.md"), "README.md: File exists"),
        (("--out", "/proc/x"), "cannot make /proc/x"),
    ],
)
def test_invalid_options_are_refused_before_mining(tmp_path, turnsmith, monkeypatch, wrong, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").touch()
    shop = make_shop(tmp_path / "shop")
    refused = turnsmith("tasks", "mine", str(shop), "--out", str(tmp_path / "out"), *wrong)
    assert refused.exit_code == 2 and message in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("num_wanted", "done", "note"),
    [(None, 4, "4 tasks"), (3, 3, "4 of 394 commits tried"), (9, 4, "4 of 394 commits tried")],
)
def test_progress_counts_requested_tasks_or_else_commits(num_wanted, done, note):
    assert measure_progress(num_wanted, 394, num_tried=4, num_kept=4) == (done, note)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_failed_installations_are_recorded(tmp_path, turnsmith):
    shop = start(tmp_path / "shop")
    bad = PROJECT.replace('name = "shop"', 'name = "shop"\ndependencies = ["no-such-package-of-turnsmith"]')
    files = {"pyproject.toml": bad, "src/shop/__init__.py": "", "tests/test_a.py": "def test_a(): pass\n"}
    commit(shop, files, "Begin")
    commit(
        shop, {"src/shop/__init__.py": "x = 1\n", "tests/test_a.py": "import shop\ndef test_a(): assert shop.x\n"}, "Go"
    )
    mined = turnsmith("tasks", "mine", str(shop), "--out", str(tmp_path / "out"))
    assert mined.exit_code == 2
    assert "no commit of" in mined.output
    record = json.loads((tmp_path / "out" / "mining.jsonl").read_text())
    assert record["reason"] == "environment could not be built"
    assert "no-such-package-of-turnsmith" in record["detail"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_other_settings_retry_rejected_commits(tmp_path, turnsmith):
    shop, out = make_shop(tmp_path / "shop"), tmp_path / "tasks"
    words = ("tasks", "mine", shop, "--out", out, "--json")
    for _ in range(2):
        failed = turnsmith(*words, "--test-command", "false")
        assert json.loads(failed.stdout)["reasons"] == {"no test ran": 1, "no source changed": 2}
    assert len((out / "mining.jsonl").read_text().splitlines()) == 1
    mined = turnsmith(*words)
    assert mined.exit_code == 0, mined.output
    assert json.loads(mined.stdout)["reasons"] == {"kept": 1, "no source changed": 2}


def test_settled_commits_are_not_retried():
    asked, other = Search().digest, Search(options=EnvironmentOptions(python="3.9")).digest
    records = {reason: Mined(commit="a", reason=reason, asked=asked) for reason in (KEPT, UNBUILT, "no test ran")}
    assert {reason for reason, record in records.items() if is_settled(record, asked)} == {KEPT, "no test ran"}
    assert {reason for reason, record in records.items() if is_settled(record, other)} == {KEPT}
    assert not is_settled(None, asked)
    assert Search(timeout_s=9.0).digest not in (asked, other)
