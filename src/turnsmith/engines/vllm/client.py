"""HTTP client of a vLLM server, over a Unix socket in a private folder or a TCP address."""

import socket
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx2

from turnsmith.errors import EngineError

CONTROL_TIMEOUT_S = 600.0
"""Seconds until a control request to a server fails; enough to load large weights."""
TURN_TIMEOUT_S = 600.0
"""Seconds until a turn fails and its server counts as dead."""


class ServerGone(EngineError):
    """Error raised if the connection to a vLLM server breaks or no answer comes."""


class ServerRefused(EngineError):
    """Error raised if a vLLM server answers a request with an error."""


class Client:
    """HTTP client of one vLLM server, with a new connection for each request."""

    def __init__(self, address: str, path: str | None = None, key: str = "") -> None:
        """Send requests to the Unix socket at `path`, or else to `address`, which may change. `key` is the server's, if any."""
        self.address = address.rstrip("/")
        self._socket = path
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._turns = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(
                uds=path, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0)
            ),
            headers=self._headers,
            timeout=httpx2.Timeout(TURN_TIMEOUT_S, pool=None),
        )

    @property
    def host(self) -> str:
        """Name or IP address of the server's machine."""
        return "127.0.0.1" if self._socket else urlsplit(self.address).hostname or ""

    async def sample(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request for one turn and return the answer. Raises ServerGone, ServerRefused."""
        try:
            return read(await self._turns.post(self.address + route, json=body))
        except httpx2.HTTPError as error:
            self._give_up(error)

    def call(
        self, method: str, route: str, body: dict[str, Any] | None = None, timeout_s: float = CONTROL_TIMEOUT_S
    ) -> Any:
        """Send a control request and block until the server answers. Raises ServerGone, ServerRefused."""
        if self._socket and not is_listening(self._socket):
            raise ServerGone(f"vLLM at {self.address} is gone: its socket accepts no connections")
        transport = httpx2.HTTPTransport(uds=self._socket)
        try:
            with httpx2.Client(transport=transport, headers=self._headers, timeout=timeout_s) as client:
                return read(client.request(method, self.address + route, json=body))
        except httpx2.HTTPError as error:
            self._give_up(error)

    def ask_workers(self, method: str) -> list[Any]:
        """Call a method of `turnsmith_vllm.transport.Extension` in each vLLM worker. Raises ServerGone, ServerRefused."""
        results: list[Any] = self.call("POST", "/collective_rpc", {"method": method})["results"]
        return results

    def _give_up(self, error: httpx2.HTTPError) -> NoReturn:
        raise ServerGone(f"vLLM at {self.address} is gone: {type(error).__name__}: {error}") from error


def is_listening(path: str) -> bool:
    """Return True if the Unix socket at `path` accepts connections."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


def read(response: httpx2.Response) -> Any:
    """Parse the JSON body of an answer; None if empty. Raises ServerRefused if the server reports an error."""
    if response.is_success:
        return response.json() if response.content else None
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = response.text
    raise ServerRefused(f"vLLM answered {response.status_code}: {message[:500]}")
