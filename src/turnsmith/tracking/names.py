"""Table of the built-in metric trackers."""

from turnsmith.config.names import NameTable

TRACKERS = NameTable(
    "tracker",
    {
        "tensorboard": "turnsmith.tracking.tensorboard:TensorBoard",
        "wandb": "turnsmith.tracking.wandb:WeightsAndBiases",
        "mlflow": "turnsmith.tracking.mlflow:MLflow",
    },
)
"""Name of each built-in tracker → import path of its class."""
