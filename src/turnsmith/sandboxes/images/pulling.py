"""Pulls of container images before a run, one after another, while the disk has room."""

import re
from collections.abc import Iterator, Sequence

from tenacity import Retrying, retry_if_exception_message, stop_after_attempt, wait_exponential

from turnsmith.errors import UsageError
from turnsmith.sandboxes.images.preflight import EXPANSION, ImageFacts, find_free_bytes
from turnsmith.sandboxes.images.references import Reference, parse_reference
from turnsmith.sandboxes.podman import ask

ATTEMPTS = 4
FIRST_WAIT_S = 2.0
"""Seconds before the second attempt to pull an image; each later wait is four times longer."""
SPARE_BYTES = 2 << 30
"""Disk space that pulls must leave free."""
TRANSIENT = re.compile(
    r".*(?:toomanyrequests|too many requests|status:? (?:code )?(?:429|5\d\d)|\b(?:429|50[0234])\b|timeout|timed out|EOF|"
    r"connection (?:reset|refused)|broken pipe|temporary failure|unexpected (?:end|http))",
    re.IGNORECASE | re.DOTALL,
)
"""Pattern of podman's messages for failures that may pass. A pull that fails with such a message is tried again."""


class DiskFull(UsageError):
    """Error raised if the next image to pull exceeds the free disk space."""


def pull_images(program: str, images: Sequence[ImageFacts]) -> Iterator[tuple[ImageFacts, str]]:
    """Pull each image and yield it with the reason of a failure, or "". Raises DiskFull; earlier pulls are kept."""
    for image in images:
        num_bytes = sum(image.layers.values()) * EXPANSION
        if find_free_bytes(program) < num_bytes + SPARE_BYTES:
            raise DiskFull(
                f"{image.name} does not fit the disk: make room for {num_bytes / 1e9:.1f} GB, "
                f"for example by `{program} image prune --all`"
            )
        fault = ""
        try:
            pull(program, parse_reference(image.name))
        except UsageError as error:
            fault = str(error)
        yield image, fault


def pull(program: str, reference: Reference) -> None:
    """Pull an image, with retries of transient failures. Raises UsageError."""
    unencrypted = ["--tls-verify=false"] if reference.is_loopback else []
    command, fault = ["pull", "--quiet", *unencrypted, str(reference)], f"{program} cannot pull {reference}"
    tries = Retrying(
        retry=retry_if_exception_message(match=TRANSIENT),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(FIRST_WAIT_S, exp_base=4),
        reraise=True,
    )
    tries(ask, program, command, fault=fault)
