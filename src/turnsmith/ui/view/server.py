"""Web server of `turnsmith view`, for browsers on the same machine.

It only reads. A page may load nothing from other hosts and may not execute scripts inside HTML (Content-Security-Policy). A
request with a foreign Host header is refused, so that no other site can read the pages by DNS rebinding.
"""

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from turnsmith.errors import TurnsmithError
from turnsmith.ui.view.answers import describe_trajectory, list_runs, list_trajectories, to_json
from turnsmith.ui.view.continuing import Continue, continue_trajectory
from turnsmith.ui.view.grids import list_grids
from turnsmith.ui.view.groups import describe_group
from turnsmith.ui.view.opened import OpenedRun
from turnsmith.ui.view.overview import (
    describe_configuration,
    describe_episodes,
    describe_run,
    draw_curves,
    list_running,
    list_steps,
)
from turnsmith.ui.view.tokens import describe_tokens

PAGES = Path(__file__).parent / "pages"
HOSTS = ["127.0.0.1", "localhost", "[::1]"]
"""Host headers, without port, of browsers on the same machine."""
COOKIE = "turnsmith_token"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every answer to a request from an allowed host."""


def make_server(runs: Mapping[str, OpenedRun], continue_run: Continue | None = None, token: str = "") -> Starlette:
    """Make the application that answers requests for pages and data of `runs`, and continues one episode at a time.

    With a token, it answers only browsers that have opened an address with this token, under any host name.
    """
    busy = Lock()

    def find(request: Request) -> OpenedRun:
        return find_named(request.path_params["run"])

    def find_named(name: str) -> OpenedRun:
        if name not in runs:
            raise HTTPException(404, f"there is no run {name[:200]}: choose one of the list")
        return runs[name]

    def show_runs(request: Request) -> Response:
        return answer(request, list_runs(runs))

    def show_run(request: Request) -> Response:
        return answer(request, describe_run(find(request)))

    def show_episodes(request: Request) -> Response:
        return answer(request, describe_episodes(find(request)))

    def show_running(request: Request) -> Response:
        return answer(request, list_running(find(request)))

    def show_steps(request: Request) -> Response:
        return answer(request, list_steps(find(request)))

    def show_configuration(request: Request) -> Response:
        other = request.query_params.get("other")
        return answer(request, describe_configuration(find(request), find_named(other) if other else None))

    def show_curves(request: Request) -> Response:
        return send(request, draw_curves(find(request)), "image/svg+xml")

    def show_tasks(request: Request) -> Response:
        return answer(request, list_grids(find(request)))

    def show_group(request: Request) -> Response:
        asked = request.query_params
        return answer(request, describe_group(find(request), asked.get("journal", ""), asked.get("task", "")))

    def show_trajectories(request: Request) -> Response:
        asked = request.query_params
        choice = {name: asked.get(name, "") for name in ("journal", "outcome", "text")}
        return answer(request, list_trajectories(find(request), **choice, first=read_number(asked.get("first", "0"))))

    def show_trajectory(request: Request) -> Response:
        journal, start = request.path_params["journal"], request.path_params["start"]
        return answer(request, describe_trajectory(find(request), journal, start))

    def show_tokens(request: Request) -> Response:
        journal, start = request.path_params["journal"], request.path_params["start"]
        return answer(request, describe_tokens(find(request), journal, start))

    async def continue_episode(request: Request) -> Response:
        refuse_other_sites(request)
        if continue_run is None:
            raise HTTPException(404, "episodes cannot be continued here: install the extra train")
        if not busy.acquire(blocking=False):
            raise HTTPException(409, "another episode is being continued: wait for its end")
        try:
            body = await request.body()
            return answer(request, await run_in_threadpool(continue_trajectory, find(request), body, continue_run))
        finally:
            busy.release()

    routes = [
        Route("/api/runs/{run}/continue", continue_episode, methods=["POST"]),
        Route("/api/runs", show_runs),
        Route("/api/runs/{run}", show_run),
        Route("/api/runs/{run}/episodes", show_episodes),
        Route("/api/runs/{run}/running", show_running),
        Route("/api/runs/{run}/steps", show_steps),
        Route("/api/runs/{run}/configuration", show_configuration),
        Route("/api/runs/{run}/curves.svg", show_curves),
        Route("/api/runs/{run}/tasks", show_tasks),
        Route("/api/runs/{run}/group", show_group),
        Route("/api/runs/{run}/trajectories", show_trajectories),
        Route("/api/runs/{run}/trajectories/{journal:path}/{start:int}", show_trajectory),
        Route("/api/runs/{run}/trajectories/{journal:path}/{start:int}/tokens", show_tokens),
        Mount("/", StaticFiles(directory=PAGES, html=True)),
    ]
    guard = Middleware(RequireToken, token=token) if token else Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    middleware = [guard, Middleware(AddHeaders)]
    handlers: dict[Any, Any] = {TurnsmithError: refuse, HTTPException: refuse_request}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


def refuse_other_sites(request: Request) -> None:
    """Refuse a request that a page of another site may have sent: one without JSON, or of another origin."""
    origin, kind = request.headers.get("origin"), request.headers.get("content-type", "")
    if kind != "application/json" or (origin and origin != f"http://{request.headers['host']}"):
        raise HTTPException(403, "only a page of this server may continue an episode")


class AddHeaders:
    """ASGI middleware that adds `HEADERS` to every answer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        await self.app(scope, receive, send_with_headers)


class RequireToken:
    """ASGI middleware that answers only requests with a token, in the address or in the cookie that it sets."""

    def __init__(self, app: Any, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        answer = self.app if scope["type"] != "http" else self._choose(Request(scope))
        await answer(scope, receive, send)

    def _choose(self, request: Request) -> Any:
        if self._is_right(request.cookies.get(COOKIE, "")):
            return self.app
        if not self._is_right(request.query_params.get("token", "")):
            return JSONResponse({"error": "open the address with the token that turnsmith view has printed"}, 401)
        redirect = RedirectResponse(request.url.path)
        redirect.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
        return redirect

    def _is_right(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def read_number(text: str) -> int:
    """Read a number from a request; raise HTTPException if it is not a number."""
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise HTTPException(400, f"{text[:40]!r} is not a number: give the position of a trajectory")
    return int(text)


def answer(request: Request, data: Any) -> Response:
    """Answer with JSON data."""
    return send(request, to_json(data), "application/json")


def send(request: Request, body: bytes, kind: str) -> Response:
    """Send a body, or only status 304 if the browser has it already."""
    tag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type=kind, headers={"ETag": tag})


def refuse(request: Request, error: Exception) -> Response:
    """Answer with a user error, e.g. a damaged file, as one sentence."""
    return JSONResponse({"error": str(error)}, status_code=409)


def refuse_request(request: Request, error: Exception) -> Response:
    """Answer a request that cannot be answered with one sentence."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code)
