"""Extras of the installation, as in `pip install 'turnsmith[train]'`, and the message about a missing package."""

from dataclasses import dataclass
from importlib.util import find_spec

from turnsmith.errors import UsageError


@dataclass(frozen=True)
class Extra:
    """Group of packages that only some commands need."""

    purpose: str
    packages: tuple[str, ...]
    """Import names of the packages."""


EXTRAS = {
    "train": Extra(
        "a policy of your own: run, rft, rl, eval, export, mismatch, solve",
        ("torch", "transformers", "tokenizers", "numba", "httpx2", "matplotlib"),
    ),
    "cluster": Extra("a trainer or engines in several processes: trainer.kind fsdp", ("ray",)),
    "low-bit": Extra("optimizer moments in 8 bits: trainer.moments = 8bit", ("torchao",)),
    "endpoint": Extra("a model behind an OpenAI-compatible address", ("openai",)),
    "data": Extra("Parquet and Arrow files, tasks decontaminate", ("pyarrow", "datasketch")),
    "mine": Extra("packages for the tests of a repository: tasks mine, tasks rebuild, solve", ("uv",)),
    "hub": Extra("models and data sets of the Hugging Face hub by name", ("huggingface_hub",)),
    "gguf": Extra("models in GGUF files: models get", ("gguf",)),
    "view": Extra("runs in a browser or a terminal: view", ("starlette", "uvicorn", "textual")),
    "tensorboard": Extra("metrics in TensorBoard", ("tensorboard",)),
    "wandb": Extra("metrics in Weights & Biases", ("wandb",)),
    "mlflow": Extra("metrics in MLflow", ("mlflow",)),
}
"""Extras by name. There is no extra for vLLM, because it is installed in a separate virtual environment."""
EXTRA_OF = {package: name for name, extra in EXTRAS.items() for package in extra.packages}


def require(*packages: str, subject: str = "this command", otherwise: str = "") -> None:
    """Raise UsageError if a package that `subject` needs is not installed. `otherwise` ends the message: a remedy besides pip."""
    for package in packages:
        if find_spec(package) is None:
            raise UsageError(describe_missing(package, subject) + otherwise)


def describe_missing(package: str, subject: str = "this command") -> str:
    """Return a message that names a missing package and the pip command that installs it."""
    return f"{subject} needs {package}: install it by `pip install 'turnsmith[{EXTRA_OF[package]}]'`"
