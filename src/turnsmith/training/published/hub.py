"""Models of the Hugging Face hub, downloaded into its cache; needs the extra `hub`. Later uses need no network."""

from pathlib import Path

from turnsmith.config.extras import require
from turnsmith.errors import UsageError

PREFIX = "hub:"
FILES = ("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt")
"""Patterns of the files of a model directory. Weights in other formats are left out."""


def download(name: str, out: Path | None = None) -> Path:
    """Download the model `hub:owner/name` or `hub:owner/name@revision` with a progress bar. Raises UsageError.

    Return its folder: `out`, or without it a folder in the cache of the hub.
    """
    require("huggingface_hub", subject=name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    try:
        folder = snapshot_download(repository, revision=revision or None, allow_patterns=[*FILES], local_dir=out)
    except GatedRepoError:
        raise UsageError(
            f"{name} needs the consent to its licence: accept it on the model's page, then log in by `hf auth login`"
        ) from None
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"{name} cannot be fetched ({reason}): check name and network") from None
    return Path(folder)


def find_downloaded(name: str) -> Path:
    """Return the folder of a downloaded model in the cache of the hub. Raises UsageError if it was not downloaded."""
    require("huggingface_hub", subject=name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    absent = UsageError(f"{name} is not on this machine: fetch it by `turnsmith models get {name}`")
    try:
        found = snapshot_download(repository, revision=revision or None, allow_patterns=[*FILES], local_files_only=True)
    except (HFValidationError, LocalEntryNotFoundError):
        raise absent from None
    if not any(Path(found).glob("*.safetensors")):
        raise absent
    return Path(found)
