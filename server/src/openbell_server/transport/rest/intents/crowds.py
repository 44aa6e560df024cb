"""Refuses commands while too many wait to be accepted, at the least cost: of a request only the bytes are read."""

import time
from collections.abc import Callable, MutableMapping
from typing import Any, Final, cast

import msgspec
import structlog
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from openbell_server.application.intents.group_commit import overload
from openbell_server.domain.errors import CODES
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import NO_SNIFF, NO_STORE, ObserveRequest, request_id_of
from openbell_server.transport.rest.errors import problem_body, status_headers
from openbell_server.transport.rest.intents.submit_fast_path import COMMANDED, TEMPLATE, match_fast_path

LOG_SECONDS: Final = 1.0


def refuse_crowds(app: ASGIApp, is_crowded: Callable[[AccountId], bool], observe: ObserveRequest) -> ASGIApp:
    """Refuse commands of crowded accounts, cancels excepted; one line a second is logged about all of them.

    Adds COMMANDED to the scope.
    """
    log = structlog.get_logger()
    refused, logged_at = 0, time.monotonic()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal refused, logged_at
        plain = cast("MutableMapping[str, Any]", scope)
        account_id = plain[COMMANDED] = match_fast_path(plain) if plain["type"] == "http" else None
        if account_id is None or not is_crowded(account_id):
            await app(scope, receive, send)
            return
        begun = time.monotonic()
        first: Any = await receive()
        if _may_be_cancel(first):
            await app(scope, _received_again(first, receive), send)
            return
        status = CODES[overload().code].status
        request_id = request_id_of(plain["headers"])
        content = msgspec.json.encode(problem_body(overload(), request_id.decode()))
        headers = [
            *((name.encode(), value.encode()) for name, value in status_headers(status).items()),
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(content)).encode()),
            (b"x-request-id", request_id),
            NO_SNIFF,
            NO_STORE,
        ]
        start: Message = {"type": "http.response.start", "status": status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": content, "more_body": False})
        now = time.monotonic()
        observe("POST", TEMPLATE, status, now - begun)
        refused += 1
        if now - logged_at >= LOG_SECONDS:
            log.warning("commands_refused", code=overload().code, count=refused)
            refused, logged_at = 0, now

    return cast("ASGIApp", serve)


def _may_be_cancel(message: Any) -> bool:  # noqa: ANN401 - a message of the server
    """False only if the whole body is here and cannot have the type CANCEL, escaped or not."""
    body: bytes = message.get("body", b"")
    return message["type"] != "http.request" or message.get("more_body", False) or b"CANCEL" in body or b"\\" in body


def _received_again(first: Any, receive: Receive) -> Receive:  # noqa: ANN401 - a message of the server
    messages = [first]

    async def receive_again() -> Any:  # noqa: ANN401 - a message of the server
        return messages.pop() if messages else await receive()

    return receive_again
