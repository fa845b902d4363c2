"""When requests may begin: so many a minute, and none while the server has asked to wait."""

import asyncio
import time


class Pace:
    """Gives each request its moment."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._next_s = 0.0

    async def wait(self) -> None:
        """Until this request may begin."""
        moment = max(time.monotonic(), self._next_s)
        self._next_s = moment + self._interval_s
        await asyncio.sleep(moment - time.monotonic())

    def hold(self, wait_s: float) -> None:
        """Begin none for so long."""
        self._next_s = max(self._next_s, time.monotonic() + wait_s)
