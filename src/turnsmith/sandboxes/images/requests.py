"""HTTP requests with retries while a server is busy."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from turnsmith.errors import TurnsmithError

ATTEMPTS = 5
FIRST_WAIT_S = 1.0
"""Seconds before the second attempt; the wait doubles each time."""
PATIENCE_S = 60.0
"""Longest `Retry-After` that is honoured."""
TIMEOUT_S = 30.0
MAX_BYTES = 4 << 20
"""Maximum response size: registries may refuse larger manifests."""
BUSY = {408, 429, 500, 502, 503, 504}
"""Status codes that are retried."""


class Unanswered(TurnsmithError):
    """Error raised if a server gives no usable answer."""


@dataclass(frozen=True)
class Answer:
    """HTTP response."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


def send(url: str, method: str = "GET", headers: Mapping[str, str] | None = None, secret: str = "") -> Answer:
    """Send a request, retrying while the server is busy. Raises Unanswered.

    `secret` is the `Authorization` header; redirects to other servers do not receive it.
    """
    host, fault = urlsplit(url).netloc, ""
    for attempt in range(ATTEMPTS):
        wait_s = FIRST_WAIT_S * 2**attempt
        try:
            answer = _send_once(url, method, headers or {}, secret)
        except (OSError, http.client.HTTPException, ValueError) as error:
            fault = f"does not answer ({getattr(error, 'reason', None) or error or type(error).__name__})"
        else:
            if answer.status not in BUSY:
                return answer
            fault = f"answers {answer.status} {http.client.responses[answer.status]}"
            wait_s = read_wait(answer.headers.get("retry-after", ""), wait_s)
        if wait_s > PATIENCE_S:
            raise Unanswered(f"{host} {fault} and asks to wait {wait_s:.0f} s: try again later")
        if attempt + 1 < ATTEMPTS:
            time.sleep(wait_s)
    raise Unanswered(f"{host} {fault}, {ATTEMPTS} times")


def read_wait(value: str, otherwise_s: float) -> float:
    """Parse a `Retry-After` header, a number or a date, as seconds."""
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return otherwise_s


def _send_once(url: str, method: str, headers: Mapping[str, str], secret: str) -> Answer:
    request = urllib.request.Request(url, headers=dict(headers), method=method)
    if secret:
        request.add_unredirected_header("Authorization", secret)
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        body = response.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        raise ValueError(f"its answer is larger than {MAX_BYTES >> 20} MB")
    return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, body)
