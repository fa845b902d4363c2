"""Real tracking libraries that write into the run folder, read back by the same library."""

import time

import pytest

from turnsmith.tracking.feed import Feed

pytestmark = pytest.mark.slow


@pytest.fixture
def send(tracked, run_folder, listener):
    """Send all records twice, like a run killed before it marked them as sent."""

    def send(name):
        for _ in range(2):
            feed = Feed(tracked(name), run_folder, listener)
            feed.update()
            feed.close()
            (run_folder.tracking(name) / "sent.json").unlink()
        assert listener.said == []
        return run_folder.tracking(name)

    return send


def test_tensorboard_stores_each_number_once(send):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(send("tensorboard"))).Reload()
    assert [(e.step, round(e.value, 3)) for e in events.Scalars("eval/practice/pass_at_1")] == [
        (0, 0.08), (1, 0.31), (6, 0.52), (11, 0.58)
    ]  # fmt: skip
    assert [e.step for e in events.Scalars("rollouts/resolved_rate")] == list(range(1, 12))


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")
def test_mlflow_stores_each_number_once(send, monkeypatch):
    tracking = pytest.importorskip("mlflow.tracking", reason="turnsmith[mlflow] is not installed")
    pytest.importorskip("alembic", reason="turnsmith[mlflow] is not installed")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = send("mlflow")
    client = tracking.MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    [run] = client.search_runs([client.get_experiment_by_name("turnsmith").experiment_id])
    history = client.get_metric_history(run.info.run_id, "eval/practice/pass_at_1")
    assert sorted((metric.step, metric.value) for metric in history) == [(0, 0.08), (1, 0.31), (6, 0.52), (11, 0.58)]
    assert run.data.params["stages.1.name"] == "stage2"
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")


def test_wandb_writes_one_offline_run(send, monkeypatch):
    """Test with the names in the offline file, which the library cannot read back."""
    pytest.importorskip("wandb", reason="turnsmith[wandb] is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder = send("wandb")
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    assert {file.stem for file in files} == {f"run-{(folder / 'id').read_text()}"}
    deadline = time.monotonic() + 60  # a background process of the library writes the file
    while not all(map(holds_the_numbers, files)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert all(map(holds_the_numbers, files))


def holds_the_numbers(file):
    return b"eval/practice/pass_at_1" in file.read_bytes()
