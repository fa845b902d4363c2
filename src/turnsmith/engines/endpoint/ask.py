"""Client of an OpenAI-compatible endpoint, one question at a time."""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from turnsmith.errors import EngineError, UsageError

BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 529}
"""Status codes that are retried."""
MAX_WAIT_S = 60.0
MAX_ANSWER_BYTES = 1 << 20


@dataclass(frozen=True)
class ChatEndpoint:
    """Chat completions endpoint; `url` ends in `/v1`."""

    url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 120.0
    max_tries: int = 5
    first_wait_s: float = 1.0
    """Seconds before the second try; doubles each time."""

    def ask(self, question: str) -> str:
        """Return the answer's text. Raises UsageError if the endpoint refuses, EngineError if all tries fail."""
        wait_s, fault = self.first_wait_s, ""
        for attempt in range(self.max_tries):
            if attempt:
                time.sleep(min(wait_s, MAX_WAIT_S))
                wait_s *= 2
            try:
                return read_answer(self._post(question))
            except urllib.error.HTTPError as error:
                error.close()
                fault = f"HTTP {error.code} {error.reason}"
                if error.code not in BUSY:
                    raise UsageError(f"{self.url} refuses the question ({fault}): check URL, model and key") from None
            except (OSError, ValueError) as error:
                fault = str(error)
        raise EngineError(f"{self.url} gave no answer in {self.max_tries} tries: {fault}")

    def _post(self, question: str) -> bytes:
        body = {"model": self.model, "temperature": 0, "messages": [{"role": "user", "content": question}]}
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        address = f"{self.url.rstrip('/')}/chat/completions"
        request = urllib.request.Request(address, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
            return response.read(MAX_ANSWER_BYTES)


def check_url(url: str) -> str:
    """Check the scheme of an endpoint URL and return it. Raises UsageError."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is not an endpoint address: give one like http://localhost:8000/v1")
    return url


def read_answer(body: bytes) -> str:
    """Extract the first choice of a completion. Raises ValueError if there is none."""
    try:
        answer: Any = json.loads(body)["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError, RecursionError):
        raise ValueError("the answer is not a chat completion") from None
    if not isinstance(answer, str):
        raise ValueError("the answer contains no text")
    return answer
