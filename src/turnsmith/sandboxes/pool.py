"""Sandboxes started before they are asked for, where their like was asked for before."""

import asyncio
from collections import deque

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec, Snapshot

NUM_REMEMBERED = 64
"""So many of the specs last asked for are remembered."""


class Pool:
    """Implements `SandboxProvider` around another one; at most `num_ahead` sandboxes wait, those begun last."""

    def __init__(self, provider: SandboxProvider, num_ahead: int) -> None:
        self.isolation = provider.isolation
        self._provider = provider
        self._num_ahead = num_ahead
        self._asked: deque[SandboxSpec] = deque(maxlen=NUM_REMEMBERED)
        self._ahead: list[tuple[SandboxSpec, asyncio.Task[Sandbox]]] = []
        """Oldest first."""
        self._leaving: set[asyncio.Task[None]] = set()

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """One that waits, where there is one; whoever asks twice for the same finds the next one begun. Raises SandboxError."""
        sandbox = await self._take(spec)
        if spec in self._asked:
            self._begin(spec)
        self._asked.append(spec)
        return sandbox

    async def start_from(self, snapshot: Snapshot) -> Sandbox:
        """As the other provider does."""
        return await self._provider.start_from(snapshot)

    async def _take(self, spec: SandboxSpec) -> Sandbox:
        """The oldest that waits; where that could not start, a start says why now, or succeeds."""
        for entry in self._ahead:
            if entry[0] == spec:
                self._ahead.remove(entry)
                try:
                    return await entry[1]
                except SandboxError:
                    break
        return await self._provider.start(spec)

    def _begin(self, spec: SandboxSpec) -> None:
        """Start one more; the oldest makes room."""
        self._ahead.append((spec, asyncio.create_task(self._provider.start(spec))))
        while len(self._ahead) > self._num_ahead:
            _, starting = self._ahead.pop(0)
            leaving = asyncio.create_task(discard(starting))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        """Stop what waits, then all that the other provider has started."""
        await asyncio.gather(*self._leaving, *(discard(starting) for _, starting in self._ahead))
        self._ahead.clear()
        await self._provider.close()


async def discard(starting: asyncio.Task[Sandbox]) -> None:
    """Stop a sandbox as soon as it has started; one that could not start is none."""
    try:
        sandbox = await starting
    except SandboxError:
        return
    await sandbox.stop()
