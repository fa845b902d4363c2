"""The extras of the installation: what each is for, what it brings, and the one sentence where a package is missing."""

from dataclasses import dataclass
from importlib.util import find_spec

from turnsmith.errors import UsageError


@dataclass(frozen=True)
class Extra:
    """A group of packages that only some commands need."""

    purpose: str
    packages: tuple[str, ...]
    """Names by which they are imported."""


EXTRAS = {
    "train": Extra(
        "a policy of your own: run, rft, rl, eval, export, mismatch, solve",
        ("torch", "transformers", "tokenizers", "numba", "httpx2", "matplotlib"),
    ),
    "endpoint": Extra("a model behind an OpenAI-compatible address", ("openai",)),
    "data": Extra("Parquet and Arrow files, tasks decontaminate", ("pyarrow", "datasketch")),
    "mine": Extra("packages for the tests of a repository: tasks mine, tasks rebuild, solve", ("uv",)),
    "hub": Extra("data sets of the Hugging Face hub by name", ("huggingface_hub",)),
    "tensorboard": Extra("metrics in TensorBoard", ("tensorboard",)),
    "wandb": Extra("metrics in Weights & Biases", ("wandb",)),
    "mlflow": Extra("metrics in MLflow", ("mlflow",)),
}
"""By the name that pip takes. vLLM has an environment of its own."""
EXTRA_OF = {package: name for name, extra in EXTRAS.items() for package in extra.packages}


def require(*packages: str, subject: str = "this command", otherwise: str = "") -> None:
    """Check that packages of extras are installed, importing none of them. Raises UsageError for the first that is not."""
    for package in packages:
        if find_spec(package) is None:
            raise UsageError(describe_missing(package, subject) + otherwise)


def describe_missing(package: str, subject: str = "this command") -> str:
    """Write the sentence that names a missing package and the installation that brings it."""
    return f"{subject} needs {package}: install it by `pip install 'turnsmith[{EXTRA_OF[package]}]'`"
