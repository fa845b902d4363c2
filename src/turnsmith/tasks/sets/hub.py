"""Download of data sets from the Hugging Face hub; needs the extra `hub`."""

from pathlib import Path

from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.tasks.sets.reading import ROW_FILES


def fetch_rows(name: str) -> Path:
    """Download the data set `owner/name` or `owner/name@revision`; return its folder. Raises UsageError."""
    require("huggingface_hub", subject=f"hub:{name}", otherwise=", or fetch the files and give their folder")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, _, revision = name.partition("@")
    patterns = [f"*{ending}" for ending in ROW_FILES]
    try:
        folder = snapshot_download(repository, repo_type="dataset", revision=revision or None, allow_patterns=patterns)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"hub:{name} cannot be fetched ({reason}): check name and network, or give a folder") from None
    return Path(folder)
