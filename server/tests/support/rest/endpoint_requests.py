"""Finds out which endpoint a client's call or a command really asks for."""

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
from typer.testing import CliRunner

from openbell import AsyncClient, Client, OpenbellError
from openbell.cli import app
from support.rest.endpoint_calls import CALLS, RULES

DOCUMENT = json.loads((Path(__file__).parents[4] / "docs" / "openapi.json").read_text())
OPERATIONS = {
    stated["operationId"]: (method.upper(), re.compile(re.sub(r"\\?\{[a-z_]+\\?\}", "[^/]+", re.escape(path))))
    for path, methods in DOCUMENT["paths"].items()
    for method, stated in methods.items()
}
NOTHING = "sha256:" + "0" * 64
CHAIN = {
    "account_id": "a",
    "organization_id": "o",
    "actions": 0,
    "refusals": 0,
    "chain_head": NOTHING,
    "refusal_head": NOTHING,
}
URL = "http://platform.test"
NOW = "2026-11-02T14:30:00Z"
WEBHOOK = {
    "id": "w",
    "organization_id": "o",
    "url": "https://e.com/",
    "types": [],
    "status": "ACTIVE",
    "version": 1,
    "created_at": NOW,
    "updated_at": NOW,
    "principal_type": "USER",
    "principal_id": "olga",
}
DESK_COMMAND = {
    "id": "d",
    "account_id": "a",
    "type": "CANCEL_ALL",
    "status": "DONE",
    "orders": 0,
    "external_orders": 0,
    "principal_type": "USER",
    "principal_id": "olga",
    "created_at": NOW,
}
RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_URL": URL, "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})


class Platform:
    """Finds nothing but the few things behind which a command asks for more."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.method, request.url.path))
        if request.url.path.endswith("/chain"):
            return httpx.Response(200, json={"data": [], "next_cursor": None, "heads": CHAIN})
        if request.method == "PATCH" and "/webhooks/" in request.url.path:
            return httpx.Response(200, json=WEBHOOK)
        if "/desk-commands/" in request.url.path and not request.url.path.endswith("/orders"):
            return httpx.Response(200, json=DESK_COMMAND)
        return httpx.Response(404, json={"code": "not_found", "detail": "There is no such thing."})

    def was_asked(self, operation: str) -> bool:
        method, path = OPERATIONS[operation]
        return any(asked == method and path.fullmatch(at) for asked, at in self.asked)


def asked_by_clients(operation: str) -> tuple[bool, bool]:
    """Whether the client and the asynchronous one ask for it."""
    plain, awaited = Platform(), Platform()
    call, _ = CALLS[operation]
    with Client("key-1", URL, account_id="a", transport=httpx.MockTransport(plain)) as client, suppress(OpenbellError):
        answer = call(client)
        if isinstance(answer, Iterator):
            next(answer, None)

    async def ask() -> None:
        async with AsyncClient("key-1", URL, account_id="a", transport=httpx.MockTransport(awaited)) as client:
            with suppress(OpenbellError):
                answer: Any = call(client)
                if isinstance(answer, AsyncIterator):
                    await anext(answer, None)
                elif isinstance(answer, Awaitable):
                    await answer

    asyncio.run(ask())
    return plain.was_asked(operation), awaited.was_asked(operation)


def asked_by_command(operation: str) -> bool:
    """Whether a command asks for it."""
    platform, inside = Platform(), httpx.Client.__init__

    def outside(self: httpx.Client, **options: Any) -> None:
        inside(self, **options | {"transport": httpx.MockTransport(platform)})

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(httpx.Client, "__init__", outside):
        Path(folder, "rules.json").write_text(json.dumps(RULES))
        words = [word.replace("{folder}", folder) for word in CALLS[operation][1]]
        RUN.invoke(app, words, input='{"k": "v"}')
    return platform.was_asked(operation)
