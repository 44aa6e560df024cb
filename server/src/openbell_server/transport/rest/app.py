"""Builds the REST application, and wraps it with what every request gets: an id, an honest path, a log line."""

import re
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from functools import partial
from typing import Any, cast
from uuid import uuid4

import structlog
from litestar import Litestar
from litestar.datastructures import State
from litestar.types import ASGIApp, ControllerRouterHandler, Message, Receive, Scope, Send

from openbell_server.transport.rest.error_responses import ErrorRenderer
from openbell_server.transport.rest.health import health_route
from openbell_server.transport.rest.hot_route import BODY_BYTES_MAX, ServeHot, SubmitHandler, hot_account, serve_hot
from openbell_server.transport.rest.openapi.operations import query_names
from openbell_server.transport.rest.openapi.routes import description_routes

# The method, the route's template if the path led to one, the status, and the seconds that it took.
ObserveRequest = Callable[[str, str | None, int, float], None]
_OUR_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_REQUEST_ID = re.compile(rb"[0-9A-Za-z_-]{1,64}")


def build_app(
    routes: Sequence[ControllerRouterHandler],
    check_database: Callable[[], Awaitable[None]],
    render_error: ErrorRenderer,
    observe: ObserveRequest,
    handle_submit: SubmitHandler,
) -> ASGIApp:
    """The application as uvicorn serves it."""
    app = Litestar(
        route_handlers=[*routes, health_route(check_database), *description_routes()],
        exception_handlers={Exception: render_error},
        state=State({"query_names": query_names}),
        request_max_body_size=BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
    )

    return with_request_id(app, partial(serve_hot, app, handle_submit, render_error), observe)


def with_request_id(app: Litestar, serve_hot: ServeHot, observe: ObserveRequest) -> ASGIApp:
    """Give each request an id (the caller's, if it is a plain one), echo it, log one line, and have it counted."""
    log = structlog.get_logger()
    words = frozenset(part for route in app.routes for part in route.path.split("/") if not part.startswith("{"))

    async def serve(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(cast("Scope", scope), receive, send)
            return
        sent = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        request_id = sent if _REQUEST_ID.fullmatch(sent) else uuid4().hex.encode()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        # The raw path keeps %2F apart from /; a route decodes its own parameters.
        raw = {"path": scope["raw_path"].decode("ascii", "replace"), "request_id": request_id.decode()}
        if scope["method"] == "OPTIONS":
            # No path takes it; the framework would answer by itself, and name only some of the path's methods.
            raw["method"] = "NONE"
        begun = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=raw["request_id"]):
            # The router writes into it which route it took.
            routed = {**scope, **raw}
            account_id = hot_account(routed)
            if account_id is None:
                await app(cast("Scope", routed), receive, send_with_id)
            else:
                await serve_hot(account_id, routed, receive, send_with_id)
            elapsed = time.perf_counter() - begun
            observe(scope["method"], routed.get("path_template"), status, elapsed)
            path = _told(raw["path"], words)
            log.info("request", method=scope["method"], path=path, status=status, millis=round(elapsed * 1000, 2))

    return cast("ASGIApp", serve)


def _told(path: str, words: Collection[str]) -> str:
    """The path for the log: our own words and ids of ours; anything else may be a secret that got there by mistake."""
    return "/".join(part if part in words or _OUR_ID.fullmatch(part) else "***" for part in path.split("/"))
