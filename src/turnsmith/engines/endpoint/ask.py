"""Client that asks an OpenAI-compatible endpoint single questions, without a conversation."""

import json
from dataclasses import dataclass, field
from typing import Any

from turnsmith.errors import EngineError, UsageError
from turnsmith.io.http import Unanswered, retry_busy, send


@dataclass(frozen=True)
class ChatEndpoint:
    """Address, model and key of a chat completions endpoint; `url` ends in `/v1`."""

    url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 120.0

    def ask(self, question: str) -> str:
        """Ask a question and return the text of the answer.

        Raises UsageError if the endpoint refuses, EngineError if all tries fail.
        """
        try:
            return retry_busy(self.url, lambda: self._ask_once(question))
        except Unanswered as fault:
            raise EngineError(str(fault)) from None

    def _ask_once(self, question: str) -> str:
        """Send a question once. Raises UsageError, and Unanswered if another try may succeed."""
        body = {"model": self.model, "temperature": 0, "messages": [{"role": "user", "content": question}]}
        address, secret = f"{self.url.rstrip('/')}/chat/completions", self.api_key and f"Bearer {self.api_key}"
        headers = {"Content-Type": "application/json"}
        answer = send(address, "POST", headers, secret, body=json.dumps(body).encode(), timeout_s=self.timeout_s)
        if answer.status >= 400:
            raise UsageError(f"{self.url} refuses the question ({answer}): check URL, model and key")
        try:
            return read_answer(answer.body)
        except ValueError as error:
            raise Unanswered(str(error)) from None


def check_url(url: str) -> str:
    """Return the endpoint's URL. Raises UsageError if it does not start with http:// or https://."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is not an endpoint address: give one like http://localhost:8000/v1")
    return url


def read_answer(body: bytes) -> str:
    """Return the text of the first choice in a chat completion. Raises ValueError if there is none."""
    try:
        answer: Any = json.loads(body)["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError, RecursionError):
        raise ValueError("the answer is not a chat completion") from None
    if not isinstance(answer, str):
        raise ValueError("the answer contains no text")
    return answer
