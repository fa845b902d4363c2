"""Kinds of failed requests: transient faults, which a retry may fix, and permanent refusals."""

import re

from openai import APIStatusError

from turnsmith.engines.endpoint.answers import describe_error
from turnsmith.io.http import is_busy, read_wait

HOPELESS = {401, 402, 404}
"""HTTP statuses that every request would get: wrong key (401), no money (402), unknown model (404)."""
_CONTEXT = re.compile(
    r"context.{0,12}(length|window|size)|maximum context|max_model_len|prompt is too long|too many tokens",
    re.IGNORECASE,
)
_MAX_WORDS = 300
"""Maximum characters of a server's error message that are shown."""


class PassingFault(Exception):
    """Failure of a request that a retry may fix. `wait_s` is the wait that the server asks for, or None."""

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class Refusal(Exception):
    """Error raised if the server refuses a request permanently, so that a retry would not help."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def is_full(self) -> bool:
        """True if the server refused because the messages exceed the model's context."""
        return self.status in (400, 413, 422) and bool(_CONTEXT.search(str(self)))


def judge(error: APIStatusError) -> PassingFault | Refusal:
    """Classify an HTTP error of the server as transient or permanent, by its status."""
    status = error.status_code
    message, code = describe_error(error.body), getattr(error, "code", None)
    text = f"HTTP {status} {message}".strip()[:_MAX_WORDS]
    if code == "insufficient_quota":
        return Refusal(402, text)
    if is_busy(status):
        return PassingFault(text, read_wait(error.response.headers))
    return Refusal(status, f"{text} {code or ''}".strip())
