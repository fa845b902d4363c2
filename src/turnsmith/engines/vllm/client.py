"""HTTP client of a vLLM server, over a Unix socket in a private folder or a TCP address."""

import socket
from typing import Any, NoReturn

import httpx2

from turnsmith.errors import EngineError

CONTROL_TIMEOUT_S = 600.0
"""Timeout of control requests, long enough to load large weights."""
TURN_TIMEOUT_S = 600.0
"""Timeout of a turn, after which its server counts as dead."""


class ServerGone(EngineError):
    """Error of a broken connection or a missing answer."""


class ServerRefused(EngineError):
    """Error answer of the server."""


class Client:
    """Client of one server; it keeps no open connections."""

    def __init__(self, address: str, path: str | None = None) -> None:
        """Connect to the Unix socket at `path`, or else to the address."""
        self.address = address
        self._socket = path
        self._turns = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(
                uds=path, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0)
            ),
            base_url=address,
            timeout=httpx2.Timeout(TURN_TIMEOUT_S, pool=None),
        )

    async def sample(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        """Request one turn. Raises ServerGone, ServerRefused."""
        try:
            return read(await self._turns.post(route, json=body))
        except httpx2.HTTPError as error:
            self._give_up(error)

    def call(
        self, method: str, route: str, body: dict[str, Any] | None = None, timeout_s: float = CONTROL_TIMEOUT_S
    ) -> Any:
        """Send a control request and block until it is answered. Raises ServerGone, ServerRefused."""
        if self._socket and not is_listening(self._socket):
            raise ServerGone(f"vLLM at {self.address} is gone: its socket accepts no connections")
        transport = httpx2.HTTPTransport(uds=self._socket)
        try:
            with httpx2.Client(transport=transport, base_url=self.address, timeout=timeout_s) as client:
                return read(client.request(method, route, json=body))
        except httpx2.HTTPError as error:
            self._give_up(error)

    def ask_workers(self, method: str) -> list[Any]:
        """Call a method of `turnsmith_vllm.transport.Extension` in each worker. Raises ServerGone, ServerRefused."""
        results: list[Any] = self.call("POST", "/collective_rpc", {"method": method})["results"]
        return results

    def _give_up(self, error: httpx2.HTTPError) -> NoReturn:
        raise ServerGone(f"vLLM at {self.address} is gone: {type(error).__name__}: {error}") from error


def is_listening(path: str) -> bool:
    """Return True if the socket accepts connections; a failed httpx connection would leak its socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def read(response: httpx2.Response) -> Any:
    """Parse the body of an answer; None if empty. Raises ServerRefused."""
    if response.is_success:
        return response.json() if response.content else None
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text
    raise ServerRefused(f"vLLM answered {response.status_code}: {message[:500]}")
