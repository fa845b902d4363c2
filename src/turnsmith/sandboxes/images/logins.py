"""Registry logins stored by `podman login` and `docker login`."""

import json
import os
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.sandboxes.images.references import HUB

_HUB_SPELLINGS = {"index.docker.io", "registry-1.docker.io", HUB}


def read_logins() -> dict[str, str]:
    """Map each registry to its base64 credentials in podman's login files. Raises UsageError if a file is invalid."""
    logins: dict[str, str] = {}
    for file in reversed([file for file in _list_files() if file.is_file()]):
        try:
            entries = json.loads(file.read_bytes()).get("auths", {})
            logins |= {_name_registry(key): entry["auth"] for key, entry in entries.items() if entry.get("auth")}
        except (OSError, ValueError, AttributeError) as error:
            raise UsageError(f"cannot read the registry logins in {file}: {error}: use `podman login`") from None
    return logins


def _list_files() -> list[Path]:
    """List podman's login files in order of precedence."""
    home = Path.home()
    run = os.environ.get("XDG_RUNTIME_DIR") or f"/run/containers/{os.getuid()}"
    config = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    named = os.environ.get("REGISTRY_AUTH_FILE")
    usual = (run, "containers/auth.json"), (config, "containers/auth.json"), (home, ".docker/config.json")
    return [*([Path(named)] if named else []), *(Path(folder, name) for folder, name in usual)]


def _name_registry(key: str) -> str:
    """Return the registry that a key of a login file names: `https://index.docker.io/v1/` → `docker.io`."""
    host = key.removeprefix("https://").removeprefix("http://").split("/")[0]
    return HUB if host in _HUB_SPELLINGS else host
