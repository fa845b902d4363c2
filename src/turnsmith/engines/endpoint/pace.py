"""Rate limit for requests to a server: a number per minute, and pauses that the server asks for."""

import asyncio
import time


class Pace:
    """Rate limiter, shared by all requests to one server."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._next_s = 0.0

    async def wait(self) -> None:
        """Wait until the next request may start."""
        moment = max(time.monotonic(), self._next_s)
        self._next_s = moment + self._interval_s
        await asyncio.sleep(moment - time.monotonic())

    def hold(self, wait_s: float) -> None:
        """Start no request for `wait_s` seconds."""
        self._next_s = max(self._next_s, time.monotonic() + wait_s)
