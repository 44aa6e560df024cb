"""Builds the REST application; every request gets an id, a log line without secrets, and a metric."""

import re
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from functools import partial
from typing import Any, cast

import structlog
from litestar import Litestar
from litestar.datastructures import State
from litestar.types import ASGIApp, ControllerRouterHandler, Message, Receive, Scope, Send

from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import NO_SNIFF, NO_STORE, ObserveRequest, end_read, request_id_of
from openbell_server.transport.rest.errors import ErrorRenderer
from openbell_server.transport.rest.health.process_health import health_route
from openbell_server.transport.rest.intents.crowds import refuse_crowds
from openbell_server.transport.rest.intents.submit_fast_path import (
    BODY_BYTES_MAX,
    COMMANDED,
    ServeFastPath,
    SubmitHandler,
    serve_fast_path,
)
from openbell_server.transport.rest.openapi.operation_table import query_names
from openbell_server.transport.rest.openapi.routes import description_routes

_OUR_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def build_app(
    routes: Sequence[ControllerRouterHandler],
    check_database: Callable[[], Awaitable[None]],
    render_error: ErrorRenderer,
    observe: ObserveRequest,
    handle_submit: SubmitHandler,
    is_crowded: Callable[[AccountId], bool],
) -> ASGIApp:
    app = Litestar(
        route_handlers=[*routes, health_route(check_database), *description_routes()],
        exception_handlers={Exception: render_error},
        state=State({"query_names": query_names}),
        request_max_body_size=BODY_BYTES_MAX,
        openapi_config=None,
        logging_config=None,
    )

    served = with_request_id(app, partial(serve_fast_path, app, handle_submit, render_error), observe)
    return refuse_crowds(served, is_crowded, observe)


def with_request_id(app: Litestar, serve_fast_path: ServeFastPath, observe: ObserveRequest) -> ASGIApp:
    """Set each request's id (the caller's, if it is valid), return it as a header, log one line, and call observe."""
    log = structlog.get_logger()
    known_parts = frozenset(part for route in app.routes for part in route.path.split("/") if not part.startswith("{"))

    async def serve(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(cast("Scope", scope), receive, send)
            return
        request_id = request_id_of(scope["headers"])
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], (b"x-request-id", request_id), NO_SNIFF]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append(NO_STORE)
                message["headers"] = headers
            await send(message)

        # In the raw path %2F differs from /. Each route decodes its own parameters.
        raw = {"path": scope["raw_path"].decode("ascii", "replace"), "request_id": request_id.decode()}
        if scope["method"] == "OPTIONS":
            # No route supports OPTIONS. Litestar would answer it, with an incomplete list of methods.
            raw["method"] = "NONE"
        begun = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=raw["request_id"]):
            # The router adds path_template to this dictionary.
            routed = {**scope, **raw}
            account_id = routed[COMMANDED]
            if account_id is None:
                try:
                    await app(cast("Scope", routed), receive, send_with_id)
                finally:
                    end_read(routed)
            else:
                await serve_fast_path(account_id, routed, receive, send_with_id)
            elapsed = time.perf_counter() - begun
            observe(scope["method"], routed.get("path_template"), status, elapsed)
            path = _redacted(raw["path"], known_parts)
            log.info("request", method=scope["method"], path=path, status=status, millis=round(elapsed * 1000, 2))

    return cast("ASGIApp", serve)


def _redacted(path: str, known_parts: Collection[str]) -> str:
    """The path for the log: route parts and UUIDs; anything else may be a secret sent there by mistake."""
    return "/".join(part if part in known_parts or _OUR_ID.fullmatch(part) else "***" for part in path.split("/"))
