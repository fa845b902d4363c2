"""What a run tells others: progress to whoever watches, and metrics to the services that keep them.

A tracker is one small class in a file of its own: `tensorboard`, `wandb`, `mlflow`, or anybody's by import path.
"""

from turnsmith.tracking.base import Progress, Silence, Tracker

__all__ = ["Progress", "Silence", "Tracker"]
