"""Feed of trackers: all finished records are sent once and in order, despite interruptions."""

import sys
from importlib.metadata import metadata

import pytest

from turnsmith.errors import UsageError
from turnsmith.runs.folder import write_json
from turnsmith.tracking.feed import Feed, check_tracker, flatten, list_records
from turnsmith.tracking.names import TRACKERS

TRACKER = f"{__name__}:Notebook"


class Notebook:
    """Tracker that writes lines to its folder; if `broken` exists there, it fails at the second line."""

    def __init__(self, folder, name, config):
        self.file = folder / "notes"
        with (folder / "opened").open("a") as opened:
            opened.write(f"{name} {config['stages.0.name']}\n")

    def log(self, step, metrics, when_s):
        assert when_s > 1e9
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        if len(lines) == 1 and (self.file.parent / "broken").exists():
            raise ConnectionError("no route")
        self.file.write_text("\n".join([*lines, f"{step} {sorted(metrics)[0]}"]) + "\n")

    def close(self):
        (self.file.parent / "closed").touch()


@pytest.fixture
def notes(run_folder):
    folder = run_folder.tracking(TRACKER)
    folder.mkdir(parents=True)
    return lambda: (folder / "notes").read_text().splitlines()


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Make this module importable under its name."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[Notebook.__module__])


def test_steps_count_iterations_from_the_base_on(tracked, run_folder):
    records = list(list_records(tracked(), run_folder))
    assert [record.step for record in records if not record.prefix] == list(range(1, 12))
    assert [record.step for record in records if record.prefix == "eval/practice/"] == [0, 1, 6, 11]
    assert [record.step for record in records] == sorted(record.step for record in records)
    assert len({record.key for record in records}) == 19


def test_evaluation_metrics_are_named_by_task_set(tracked, run_folder):
    first = next(list_records(tracked(), run_folder))
    assert first.metrics["eval/practice/pass_at_1"] == 0.08
    assert "eval/practice/stage" not in first.metrics


def test_each_record_is_sent_once(tracked, run_folder, listener, notes):
    for _ in range(2):
        feed = Feed(tracked(TRACKER), run_folder, listener)
        feed.update()
        feed.update()
        feed.close()
    assert len(notes()) == 19
    write_json(run_folder.iteration("stage2", 5).metrics, {"loss/entropy": 0.5})
    config = tracked(TRACKER)
    stages = [config.stages[0], config.stages[1].model_copy(update={"iterations": 6})]
    Feed(config.model_copy(update={"stages": stages}), run_folder, listener).update()
    assert notes()[19:] == ["12 loss/entropy", "12 eval/practice/k", "12 eval/package/k"]
    assert listener.said == []
    assert (run_folder.tracking(TRACKER) / "opened").read_text() == "run stage1\n" * 2
    assert (run_folder.tracking(TRACKER) / "closed").exists()


def test_tracker_failure_is_reported_once_and_resume_sends_the_rest(tracked, run_folder, listener, notes):
    (run_folder.tracking(TRACKER) / "broken").touch()
    feed = Feed(tracked(TRACKER), run_folder, listener)
    feed.update()
    feed.update()
    feed.close()
    [warning] = listener.said
    assert "warning: tracking to" in warning and "ConnectionError: no route" in warning and "resume" in warning
    (run_folder.tracking(TRACKER) / "broken").unlink()
    (run_folder.tracking(TRACKER) / "notes").unlink()
    Feed(tracked(TRACKER), run_folder, listener).update()
    assert len(notes()) == 19


def test_missing_tracker_is_reported_and_the_run_continues(tracked, run_folder, listener):
    Feed(tracked("no_such_package.module:Tracker"), run_folder, listener).update()
    assert "there is no module no_such_package" in listener.said[0]


def test_unknown_tracker_is_refused():
    with pytest.raises(UsageError, match="'comet': give tensorboard, wandb, mlflow, or an import path"):
        check_tracker("comet", {})


def test_missing_package_is_refused_before_the_run(monkeypatch):
    monkeypatch.setattr("turnsmith.config.extras.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'turnsmith\[wandb\]'"):
        check_tracker("wandb", {})


def test_tensorboard_needs_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"tracking to tensorboard needs torch.*turnsmith\[train\]"):
        check_tracker("tensorboard", {})


def test_extra_named_in_the_error_exists():
    assert set(TRACKERS.paths) <= set(metadata("turnsmith").get_all("Provides-Extra"))


def test_configuration_is_flattened():
    assert flatten({"a": {"b": [1, {"c": None}]}, "d": {}}) == {"a.b.0": "1", "a.b.1.c": "None"}
