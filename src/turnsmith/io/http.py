"""HTTP requests with retries while a server is busy."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt

from turnsmith.errors import TurnsmithError

ATTEMPTS = 5
FIRST_WAIT_S = 1.0
"""Seconds before the second attempt; the wait doubles each time."""
PATIENCE_S = 60.0
"""Longest `Retry-After`, in seconds, that is obeyed; if a server asks for more, the request fails."""
TIMEOUT_S = 30.0
MAX_BYTES = 4 << 20
"""Maximum size of a response, in bytes; container registries may refuse larger manifests."""
BUSY = {408, 409, 425, 429}
"""Status codes below 500 after which a request is retried. All codes from 500 on are retried too."""

T = TypeVar("T")


class Unanswered(TurnsmithError):
    """Error raised if a server gives no usable answer; `wait_s` is the wait that it asks for, or None."""

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s


@dataclass(frozen=True)
class Answer:
    """HTTP response."""

    status: int
    headers: Mapping[str, str]
    """Header values by name in lower case."""
    body: bytes

    def __str__(self) -> str:
        return f"HTTP {self.status} {http.client.responses.get(self.status, '')}".strip()


def retry_busy(server: str, ask: Callable[[], T]) -> T:
    """Call `ask` until it raises no Unanswered, at most `ATTEMPTS` times; the wait doubles each time. Raises Unanswered."""
    last = stop_after_attempt(ATTEMPTS)
    tries = Retrying(
        retry=retry_if_exception_type(Unanswered),
        stop=lambda state: last(state) or find_wait(state, 0.0) > PATIENCE_S,
        wait=lambda state: find_wait(state, FIRST_WAIT_S * 2 ** (state.attempt_number - 1)),
        reraise=True,
    )
    try:
        return tries(ask)
    except Unanswered as fault:
        if (wait_s := fault.wait_s or 0.0) > PATIENCE_S:
            raise Unanswered(f"{server} answers {fault} and asks to wait {wait_s:.0f} s: try again later") from None
        raise Unanswered(f"{server} gave no answer in {ATTEMPTS} tries: {fault}") from None


def find_wait(state: RetryCallState, otherwise_s: float) -> float:
    """Return the seconds that the server asked to wait in the last failed attempt, or `otherwise_s` if it asked for none."""
    wait_s = getattr(state.outcome and state.outcome.exception(), "wait_s", None)
    return otherwise_s if wait_s is None else wait_s


def send(
    url: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    secret: str = "",
    *,
    body: bytes | None = None,
    timeout_s: float | None = None,
) -> Answer:
    """Send one request. Raises Unanswered if there is no answer, or if the server is busy.

    `secret` is the `Authorization` header; redirects to other servers do not receive it.
    """
    try:
        answer = _open(url, method, headers or {}, secret, body, timeout_s or TIMEOUT_S)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unanswered(str(getattr(error, "reason", None) or error or type(error).__name__)) from None
    if is_busy(answer.status):
        raise Unanswered(str(answer), read_wait(answer.headers))
    return answer


def _open(
    url: str, method: str, headers: Mapping[str, str], secret: str, body: bytes | None, timeout_s: float
) -> Answer:
    request = urllib.request.Request(url, body, dict(headers), method=method)
    if secret:
        request.add_unredirected_header("Authorization", secret)
    try:
        response = urllib.request.urlopen(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        content = response.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"the answer is larger than {MAX_BYTES >> 20} MB")
    return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, content)


def is_busy(status: int) -> bool:
    """Return True for a status code after which a request is retried."""
    return status in BUSY or status >= 500


def read_wait(headers: Mapping[str, str]) -> float | None:
    """Read the seconds of `Retry-After`, a number or a date; None if absent."""
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(value))
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
