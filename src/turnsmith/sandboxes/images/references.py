"""Full names of container images: registry, repository, and tag or digest."""

import re
from dataclasses import dataclass

HUB = "docker.io"
"""Registry of image names that contain no registry."""
HUB_ADDRESS = "registry-1.docker.io"
"""Host name of Docker Hub's registry API."""
LOCAL = "localhost"
"""Registry name of images built on this machine."""
_NAME = re.compile(r"[a-z0-9](?:[\w.:@-]|/(?!/))*", re.ASCII | re.IGNORECASE)
_LOOPBACK = re.compile(r"(?:localhost|127\.[\d.]+|\[::1\])(?::\d+)?")


@dataclass(frozen=True)
class Reference:
    """Full name of a container image, parsed into registry, repository and version."""

    registry: str
    repository: str
    version: str
    """Tag of the image, or a digest such as `sha256:…`."""

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if ':' in self.version else ':'}{self.version}"

    @property
    def is_loopback(self) -> bool:
        """Return True if the registry runs on this machine, where plain HTTP is allowed."""
        return bool(_LOOPBACK.fullmatch(self.registry))

    @property
    def manifest_url(self) -> str:
        """Return the URL of the image's manifest in the OCI distribution protocol."""
        scheme = "http" if self.is_loopback else "https"
        host = HUB_ADDRESS if self.registry == HUB else self.registry
        return f"{scheme}://{host}/v2/{self.repository}/manifests/{self.version}"


def parse_reference(name: str) -> Reference:
    """Parse an image name with Docker's defaults: `swebench/x` → `docker.io/swebench/x:latest`."""
    rest, _, digest = name.partition("@")
    first, slash, path = rest.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == LOCAL)
    registry, rest = (first, path) if is_host else (HUB, rest)
    repository, colon, tag = rest.rpartition(":")
    if not colon:
        repository, tag = rest, ""
    if registry in (HUB, f"index.{HUB}"):
        registry, repository = HUB, repository if "/" in repository else f"library/{repository}"
    return Reference(registry, repository, digest or tag or "latest")


def is_name(name: str) -> bool:
    """Return True if the text is a valid name of a container image."""
    return bool(_NAME.fullmatch(name))


def is_root(name: str) -> bool:
    """Return True if an image is given as the path of a root file system."""
    return name.startswith(("/", "."))
