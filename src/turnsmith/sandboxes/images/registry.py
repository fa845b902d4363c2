"""Client of container registries (OCI distribution protocol): existence and layer sizes of images.

The client reads only manifests. It sends a HEAD request first, which registries do not count as a pull. A manifest with a
known digest is not fetched again.
"""

import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlencode, urlsplit

from turnsmith.errors import TurnsmithError, UsageError
from turnsmith.io.http import Answer, Unanswered, retry_busy, send
from turnsmith.sandboxes.images.references import HUB, Reference

LISTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
"""Media types of manifest lists (one manifest per architecture)."""
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Name of a CPU architecture as Linux reports it → name that image registries use."""
_HUB_SPELLINGS = {"index.docker.io", "registry-1.docker.io", HUB}
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class Missing(TurnsmithError):
    """Error raised if a registry lacks an image, lacks it for this machine's architecture, or demands a login."""


@dataclass(frozen=True)
class Manifest:
    """Digest and layers of a container image."""

    digest: str
    """Digest of the manifest, or of the manifest list that the image's tag names."""
    layers: dict[str, int]
    """Digest of each layer → compressed size in bytes."""


@dataclass
class Registry:
    """Registry client, which keeps one access token per repository; thread-safe."""

    logins: Mapping[str, str]
    known: Mapping[str, Manifest]
    """Digest → manifest, for manifests fetched in earlier runs."""
    _tokens: dict[str, str] = field(default_factory=dict)
    _closed: dict[str, Unanswered] = field(default_factory=dict)
    """Registry that failed → its error; such a registry is not queried again."""
    _lock: Lock = field(default_factory=Lock)

    def find(self, reference: Reference) -> Manifest:
        """Return an image's manifest for this machine's architecture. Raises Missing, Unanswered."""
        digest = self._ask(reference, "HEAD", reference.version).headers.get("docker-content-digest", "")
        if digest in self.known:
            return self.known[digest]
        manifest = self._fetch(reference, digest or reference.version)
        if "manifests" in manifest:
            manifest = self._fetch(reference, choose_platform(manifest))
        return Manifest(digest, read_layer_sizes(manifest))

    def _fetch(self, reference: Reference, version: str) -> dict[str, Any]:
        body = self._ask(reference, "GET", version).body
        try:
            manifest = json.loads(body)
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict):
            raise Unanswered(f"{reference.registry} sent no manifest of {reference}")
        return manifest

    def _ask(self, reference: Reference, method: str, version: str) -> Answer:
        url = reference.manifest_url.removesuffix(reference.version) + version
        answer = self._send(reference, url, method)
        if answer.status == 401:
            self._log_in(reference, answer.headers.get("www-authenticate", ""))
            answer = self._send(reference, url, method)
        if answer.status in (401, 403):
            raise Missing(f"{reference.registry} denies access: the image does not exist, or needs `podman login`")
        if answer.status == 404:
            raise Missing(f"{reference.registry} does not have this image")
        if answer.status != 200:
            raise Unanswered(f"{reference.registry} answers {answer.status}")
        return answer

    def _send(self, reference: Reference, url: str, method: str) -> Answer:
        """Send a request to the registry. Raises Unanswered, also if this registry failed before."""
        if earlier := self._closed.get(reference.registry):
            raise earlier
        place = f"{reference.registry}/{reference.repository}"
        try:
            accept, secret = {"Accept": ", ".join(LISTS + MANIFESTS)}, self._tokens.get(place, "")
            return retry_busy(reference.registry, lambda: send(url, method, accept, secret))
        except Unanswered as error:
            self._closed[reference.registry] = error
            raise

    def _log_in(self, reference: Reference, challenge: str) -> None:
        """Log in as the registry's challenge demands: by a bearer token or by the stored login. Raises Unanswered, Missing."""
        login = self.logins.get(reference.registry, "")
        secret = f"Basic {login}" if login else ""
        if challenge.lower().startswith("bearer "):
            secret = f"Bearer {fetch_token(challenge, reference, secret)}"
        with self._lock:
            self._tokens[f"{reference.registry}/{reference.repository}"] = secret


def fetch_token(challenge: str, reference: Reference, secret: str) -> str:
    """Fetch a token for pulling an image from the server that the registry's challenge names. Raises Unanswered, Missing."""
    asked = dict(_PARAMETER.findall(challenge))
    realm = asked.pop("realm", "")
    if not realm.startswith("https://") and not (reference.is_loopback and realm.startswith("http://")):
        raise Unanswered(f"{reference.registry} names the token address {realm or '(none)'}, which is not https")
    query = {"scope": f"repository:{reference.repository}:pull", **asked}
    url = f"{realm}?{urlencode({name: query[name] for name in ('service', 'scope') if name in query})}"
    answer = retry_busy(urlsplit(realm).netloc, lambda: send(url, secret=secret))
    if answer.status in (401, 403):
        raise Missing(f"{reference.registry} rejects the stored login: renew it by `podman login {reference.registry}`")
    try:
        issued = json.loads(answer.body)
        return str(issued.get("token") or issued["access_token"])
    except (ValueError, LookupError, AttributeError):
        raise Unanswered(f"{reference.registry} gave no token") from None


def choose_platform(manifests: Mapping[str, Any]) -> str:
    """Return the digest of the manifest for this machine's architecture.

    Raises Missing if none fits, Unanswered if the list is invalid.
    """
    here = platform.machine()
    architecture = ARCHITECTURES.get(here, here)
    try:
        entries = [(entry.get("platform") or {}, entry["digest"]) for entry in manifests["manifests"]]
        offered = {about["architecture"]: digest for about, digest in entries if about.get("os") == "linux"}
    except (LookupError, TypeError, AttributeError):
        raise Unanswered("the image's list of manifests is invalid") from None
    if architecture not in offered:
        raise Missing(
            f"the image does not exist for {architecture}, only for {', '.join(sorted(map(str, offered))) or 'no Linux'}"
        )
    return str(offered[architecture])


def read_layer_sizes(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Map each layer of an image to its compressed bytes. Raises Unanswered if the manifest has no sizes (schema version 1)."""
    try:
        return {str(layer["digest"]): int(layer["size"]) for layer in manifest["layers"]}
    except (LookupError, TypeError, ValueError):
        raise Unanswered("the image's manifest does not give the sizes of its layers") from None


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
