"""Pulls of container images before a run, one after another, within a limit of disk space."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenacity import Retrying, retry_if_exception_message, stop_after_attempt, wait_exponential

from turnsmith.errors import UsageError
from turnsmith.sandboxes.images.cache import PulledImage, make_room, record_pull
from turnsmith.sandboxes.images.preflight import EXPANSION, ImageFacts, find_free_bytes, list_names
from turnsmith.sandboxes.images.references import Reference, parse_reference
from turnsmith.sandboxes.podman import ask

ATTEMPTS = 4
FIRST_WAIT_S = 2.0
"""Seconds before the second attempt to pull an image; each later wait is four times longer."""
SPARE_BYTES = 2 << 30
"""Disk space that pulls must leave free."""
PASSING = re.compile(
    r".*(?:toomanyrequests|too many requests|status:? (?:code )?(?:429|5\d\d)|\b(?:429|50[0234])\b|timeout|timed out|EOF|"
    r"connection (?:reset|refused)|broken pipe|temporary failure|unexpected (?:end|http))",
    re.IGNORECASE | re.DOTALL,
)
"""Pattern of podman's messages for failed pulls that may succeed later."""


@dataclass(frozen=True)
class Pull:
    """Result of pulling one container image."""

    image: ImageFacts
    fault: str = ""
    """Reason for a failed pull; empty on success."""


class DiskFull(UsageError):
    """Error raised if the next image to pull exceeds the free disk space or the user's limit."""


def pull_images(
    program: str, images: Sequence[ImageFacts], needed: Sequence[str], max_bytes: int | None = None
) -> Iterator[Pull]:
    """Pull each image, evicting old ones if space is short, but none in `needed`. Raises DiskFull; earlier pulls are kept."""
    spared = {str(parse_reference(name)) for name in needed}
    for image in images:
        reference = parse_reference(image.name)
        before = set(list_names(program).values())
        coming = PulledImage(name=str(reference), identity="", layers=unpack(image))
        if max_bytes is not None and not make_room(program, coming, max_bytes, spared, before):
            raise DiskFull(f"{image.name} does not fit the bound of {max_bytes / 1e9:g} GB: raise --max-gb")
        if find_free_bytes(program) < sum(coming.layers.values()) + SPARE_BYTES:
            raise DiskFull(
                f"{image.name} does not fit the disk: make room for {sum(coming.layers.values()) / 1e9:.1f} GB"
            )
        try:
            identity = pull(program, reference)
        except UsageError as error:
            yield Pull(image, str(error))
            continue
        if identity not in before:
            record_pull(coming.model_copy(update={"identity": identity}))
        yield Pull(image)


def unpack(image: ImageFacts) -> dict[str, int]:
    """Estimate the bytes on disk of each layer of an image."""
    return {digest: round(size * EXPANSION) for digest, size in image.layers.items()}


def pull(program: str, reference: Reference) -> str:
    """Pull an image, with retries of transient failures; return its content hash. Raises UsageError."""
    unencrypted = ["--tls-verify=false"] if reference.is_loopback else []
    command, fault = ["pull", "--quiet", *unencrypted, str(reference)], f"{program} cannot pull {reference}"
    tries = Retrying(
        retry=retry_if_exception_message(match=PASSING),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(FIRST_WAIT_S, exp_base=4),
        reraise=True,
    )
    return tries(ask, program, command, fault=fault).strip()
