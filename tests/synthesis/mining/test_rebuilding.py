"""Tests of rebuilding: faults are recorded per row and retried by the next command."""

import json
import re
import sys
from pathlib import Path

import pytest

from support.repositories.histories import PROJECT, commit, git, make_shop
from turnsmith.runs.folder import hold
from turnsmith.synthesis.mining.rebuilding import read_date
from turnsmith.tasks.dataset import load_tasks, save_tasks
from turnsmith.types import Task

NOWHERE = {"python": "2.1"}


@pytest.fixture
def shop(tmp_path):
    return make_shop(tmp_path / "shop")


@pytest.fixture
def rebuild(tmp_path, turnsmith):
    """Rebuild rows with options; returns the command result and the last record of each row."""

    def run(rows, *options):
        save_tasks(tmp_path / "rows", rows)
        result = turnsmith("tasks", "rebuild", tmp_path / "rows", "--out", tmp_path / "out", "--json", *options)
        journal = tmp_path / "out" / "rebuilding.jsonl"
        lines = map(json.loads, journal.read_text().splitlines() if journal.exists() else [])
        return result, {line["instance_id"]: line for line in lines}

    return run


def make_row(shop, name="one", **columns):
    row = {
        "instance_id": name,
        "repo": "a/shop",
        "base_commit": git(shop, "rev-parse", "HEAD~3"),
        "problem_statement": "x",
        "patch": "x",
        "test_patch": "",
        "FAIL_TO_PASS": ["tests/test_prices.py::test_without_a_price"],
        "PASS_TO_PASS": [],
        "image": "registry/x",
    }
    return Task.model_validate(row | columns)


def test_failed_rows_are_retried(shop, rebuild):
    rows = [make_row(shop, install_config=NOWHERE)]
    _, records = rebuild(rows, "--history", f"b/other={shop}")
    assert "--history a/shop=PATH" in records["one"]["detail"]
    _, records = rebuild(rows, "--history", f"a/shop={shop}")
    assert "Python 2.1" in records["one"]["detail"]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"install_config": "{"}, "unreadable install_config"),
        ({"install_config": {"pip_packages": [1]}}, "unreadable pip_packages"),
        ({"base_commit": "--output=x"}, "history or Python missing"),
    ],
)
def test_a_faulty_row_is_reported_with_its_reason(shop, rebuild, columns, reason):
    result, records = rebuild([make_row(shop, **columns)], "--history", f"a/shop={shop}")
    assert records["one"]["reason"] == reason
    assert re.search("none of 1 tasks? ", result.output)


def test_unusable_ids_are_rejected(shop, rebuild, tmp_path):
    names = ("..", "../../shop", "x" * 300)
    _, records = rebuild([make_row(shop, name) for name in names], "--history", f"a/shop={shop}")
    assert {record["reason"] for record in records.values()} == {"unusable id"}
    assert {path.name for path in tmp_path.iterdir()} == {"shop", "rows", "out"}


def test_an_unknown_task_is_refused(shop, rebuild):
    result, _ = rebuild([make_row(shop)], "--history", f"a/shop={shop}", "--task", "two")
    assert result.exit_code == 2
    assert "'two'" in result.output


def test_a_second_process_is_refused(shop, rebuild, tmp_path):
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / "rebuilding.jsonl").open("ab") as journal:
        hold(journal)
        result, records = rebuild([make_row(shop)], "--history", f"a/shop={shop}")
    assert "another process" in result.output
    assert not records


HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = Path(pytest.__file__).parents[1]
NAMES = ("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments")
PLACE = "$(python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
COPY = f"mkdir -p {PLACE}; cp -r {' '.join(str(PACKAGES / name) for name in NAMES)} {PLACE}"
WITHOUT_HOOKS = f"{COPY}; echo 'del hookimpl' >> {PLACE}/pytest/__init__.py"


def test_an_environment_without_a_working_plugin_is_refused(shop, rebuild, tmp_path):
    rows, history = [make_row(shop)], f"a/shop={shop}"
    for command, cause in (("true", "No module named pytest"), (WITHOUT_HOOKS, "has no attribute 'hookimpl'")):
        result, records = rebuild(rows, "--history", history, "--python", HERE, "--install", command)
        assert result.exit_code == 2
        assert records["one"]["reason"] == "cannot be graded"
        assert cause in records["one"]["detail"]
    assert not (tmp_path / "out" / "tasks.jsonl").exists()


def test_options_replace_python_and_commands_of_the_row(shop, rebuild, tmp_path):
    rows = [make_row(shop, install_config=NOWHERE)]
    result, records = rebuild(rows, "--history", f"a/shop={shop}", "--python", HERE, "--install", COPY)
    assert records["one"]["reason"] == "rebuilt", result.output
    (task,) = load_tasks(tmp_path / "out")
    recipe = json.loads((tmp_path / "out" / f"{task.environment}.json").read_text())
    assert recipe["commands"] == [COPY]


@pytest.mark.parametrize("stated", [{}, {"created_at": None}, {"created_at": 1609298073000}])
def test_invalid_dates_are_ignored(shop, stated):
    assert read_date(make_row(shop, **stated)) == ""
    assert read_date(make_row(shop, created_at="2023-04-14 16:36:54")) == "2023-04-14 16:36:54"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_row_without_a_date_uses_the_date_of_its_commit(shop, rebuild, tmp_path):
    result, records = rebuild([make_row(shop)], "--history", f"a/shop={shop}")
    assert records["one"]["reason"] == "rebuilt", result.output
    (task,) = load_tasks(tmp_path / "out")
    recipe = json.loads((tmp_path / "out" / f"{task.environment}.json").read_text())
    assert "--exclude-newer 2024-07-01" in recipe["commands"][0]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_project_without_editable_installation_is_imported_from_its_tree(shop, rebuild, tmp_path):
    project = PROJECT.replace('"setuptools"]', '"setuptools==62.6", "wheel"]')
    base = commit(shop, {"pyproject.toml": project}, "Pin the build", date="2023-01-02T12:00:00+00:00")
    result, records = rebuild([make_row(shop, base_commit=base)], "--history", f"a/shop={shop}", "--python", "3.10")
    assert records["one"]["reason"] == "rebuilt", result.output
    (task,) = load_tasks(tmp_path / "out")
    packages = next((tmp_path / "out" / task.environment).glob("lib/*/site-packages"))
    assert (packages / "shop-1.0.pth").read_text() == "/testbed/src\n"
    assert not (packages / "shop").exists()
