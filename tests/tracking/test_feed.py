"""What is sent to a tracker: all that is finished, once, in order, whatever stops on the way."""

import sys
from importlib.metadata import metadata

import pytest

from turnsmith.errors import UsageError
from turnsmith.plugins import BUILT_IN
from turnsmith.runs import write_json
from turnsmith.tracking.feed import Feed, check_tracker, flatten, list_records

TRACKER = f"{__name__}:Notebook"


class Notebook:
    """Writes lines into its folder; where `broken` lies there, it fails at the second line."""

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
    """The module of this file, under the name that it has here."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules[Notebook.__module__])


def test_steps_count_iterations_from_the_base_on(tracked, run_folder):
    records = list(list_records(tracked(), run_folder))
    assert [record.step for record in records if not record.prefix] == list(range(1, 12))
    assert [record.step for record in records if record.prefix == "eval/practice/"] == [0, 1, 6, 11]
    assert [record.step for record in records] == sorted(record.step for record in records)
    assert len({record.key for record in records}) == 19


def test_a_result_gives_its_numbers_by_task_set(tracked, run_folder):
    first = next(list_records(tracked(), run_folder))
    assert first.metrics["eval/practice/pass_at_1"] == 0.08
    assert "eval/practice/stage" not in first.metrics


def test_everything_is_sent_once(tracked, run_folder, listener, notes):
    for _ in range(2):
        feed = Feed(tracked(TRACKER), run_folder, listener)
        feed.update()
        feed.update()
        feed.close()
    assert len(notes()) == 19
    write_json(run_folder.metrics("stage2", 5), {"loss/entropy": 0.5})
    config = tracked(TRACKER)
    stages = [config.stages[0], config.stages[1].model_copy(update={"iterations": 6})]
    Feed(config.model_copy(update={"stages": stages}), run_folder, listener).update()
    assert notes()[19:] == ["12 loss/entropy", "12 eval/practice/k", "12 eval/package/k"]
    assert listener.said == []
    assert (run_folder.tracking(TRACKER) / "opened").read_text() == "run stage1\n" * 2
    assert (run_folder.tracking(TRACKER) / "closed").exists()


def test_a_tracker_that_fails_is_said_once_and_the_rest_is_sent_later(tracked, run_folder, listener, notes):
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


def test_a_tracker_that_is_nowhere_is_said_and_the_run_goes_on(tracked, run_folder, listener):
    Feed(tracked("no_such_package.module:Tracker"), run_folder, listener).update()
    assert "there is no module no_such_package" in listener.said[0]


def test_a_name_that_nobody_knows_is_refused(tracked):
    with pytest.raises(
        ValueError, match="there is no tracker 'comet': give tensorboard, wandb, mlflow, or an import path"
    ):
        tracked("comet")


def test_a_missing_package_is_asked_for_before_the_run(monkeypatch):
    monkeypatch.setattr("turnsmith.extras.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'turnsmith\[wandb\]'"):
        check_tracker("wandb")


def test_tensorboard_needs_torch_which_writes_its_files(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"tracking to tensorboard needs torch.*turnsmith\[train\]"):
        check_tracker("tensorboard")


def test_the_extra_that_is_asked_for_exists():
    assert set(BUILT_IN["tracker"]) <= set(metadata("turnsmith").get_all("Provides-Extra"))


def test_a_configuration_becomes_flat():
    assert flatten({"a": {"b": [1, {"c": None}]}, "d": {}}) == {"a.b.0": "1", "a.b.1.c": "None"}
