"""Refusal of requests without the run's key, for a server that other machines can reach. vLLM's own key leaves routes open."""

import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

VARIABLE = "TURNSMITH_GUARD"
"""Environment variable with the key."""


class Guard:
    """ASGI middleware that answers 401 to a request without the key, on every route."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._expected = f"Bearer {os.environ[VARIABLE]}".encode()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] == "lifespan" or secrets.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"the key is missing or wrong"})
