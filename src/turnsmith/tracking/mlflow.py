"""MLflow tracker: the server of `MLFLOW_TRACKING_URI`, or a database in the run folder.

View the database with:

    mlflow ui --backend-store-uri sqlite:///RUN/tracking/mlflow/mlflow.db
"""

import os
from collections.abc import Mapping
from pathlib import Path

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

MAX_PARAMS = 100
"""Maximum number of parameters that MLflow accepts in one request."""


class MLflow:
    """Tracker with one MLflow run per run folder, continued after a resume. A value that is sent twice is stored once."""

    def __init__(self, folder: Path, name: str, config: Mapping[str, str]) -> None:
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.absolute()}/mlflow.db"
        self._client = MlflowClient(tracking_uri=uri)
        self._run_id = find_run(self._client, folder / "id", name, config)

    def log(self, step: int, metrics: Mapping[str, float], when_s: float) -> None:
        when_ms = round(1000 * when_s)
        self._client.log_batch(self._run_id, [Metric(key, value, when_ms, step) for key, value in metrics.items()])

    def close(self) -> None:
        self._client.set_terminated(self._run_id)


def find_run(client: MlflowClient, file: Path, name: str, config: Mapping[str, str]) -> str:
    """Return the id of the MLflow run; create the run, with the configuration as parameters, if needed."""
    if not file.exists():
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", "turnsmith")
        found = client.get_experiment_by_name(experiment)
        run = client.create_run(found.experiment_id if found else client.create_experiment(experiment), run_name=name)
        params = [Param(key, value) for key, value in config.items()]
        for start in range(0, len(params), MAX_PARAMS):
            client.log_batch(run.info.run_id, params=params[start : start + MAX_PARAMS])
        file.write_text(run.info.run_id)
    return file.read_text()
