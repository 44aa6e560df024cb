"""What the platform serves, both clients and the command line can ask for."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from endpoint_calls import CALLS, RULES
from typer.testing import CliRunner

from openbell import AsyncClient, Client, OpenbellError
from openbell.account_requests import Account, AccountPage, Credential
from openbell.cli import app
from openbell.event_records import ExternalOrder
from openbell.key_requests import ApiKey, ApiKeyPage, ValidKey
from openbell.models import Record
from openbell.operation_requests import Health, Organization, Outbox, OutboxEntry, Outboxes, OutboxHealth
from openbell.webhook_requests import Webhook, WebhookLane

DOCUMENT = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text())
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
RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})


class Platform:
    """Finds nothing but the few things behind which a command asks for more."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.method, request.url.path))
        if request.url.path.endswith("/chain"):
            return httpx.Response(200, json=CHAIN)
        if request.method == "PATCH" and "/webhooks/" in request.url.path:
            return httpx.Response(200, json=WEBHOOK)
        return httpx.Response(404, json={"code": "not_found", "detail": "There is no such thing."})

    def was_asked(self, operation: str) -> bool:
        method, path = OPERATIONS[operation]
        return any(asked == method and path.fullmatch(at) for asked, at in self.asked)


def test_the_table_has_every_endpoint() -> None:
    assert sorted(CALLS) == sorted(OPERATIONS)


@pytest.mark.parametrize("operation", CALLS)
def test_both_clients_can_ask_for(operation: str) -> None:
    plain, awaited = Platform(), Platform()
    call, _ = CALLS[operation]
    with Client("key-1", account_id="a", transport=httpx.MockTransport(plain)) as client, suppress(OpenbellError):
        answer = call(client)
        if isinstance(answer, Iterator):
            next(answer, None)

    async def ask() -> None:
        async with AsyncClient("key-1", account_id="a", transport=httpx.MockTransport(awaited)) as client:
            with suppress(OpenbellError):
                answer: Any = call(client)
                if isinstance(answer, AsyncIterator):
                    await anext(answer, None)
                elif isinstance(answer, Awaitable):
                    await answer

    asyncio.run(ask())
    assert (plain.was_asked(operation), awaited.was_asked(operation)) == (True, True)


@pytest.mark.parametrize("operation", CALLS)
def test_a_command_asks_for(operation: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    platform, inside = Platform(), httpx.Client.__init__

    def outside(self: httpx.Client, **options: Any) -> None:
        inside(self, **options | {"transport": httpx.MockTransport(platform)})

    monkeypatch.setattr(httpx.Client, "__init__", outside)
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    words = [word.replace("{folder}", str(tmp_path)) for word in CALLS[operation][1]]
    result = RUN.invoke(app, words, input='{"k": "v"}')
    assert platform.was_asked(operation), (platform.asked, result.output)


@pytest.mark.parametrize(
    ("record", "schema"),
    [
        (Account, "Account"),
        (AccountPage, "AccountPage"),
        (Credential, "Credential"),
        (ApiKey, "ApiKey"),
        (ApiKeyPage, "ApiKeyPage"),
        (ValidKey, "ValidKey"),
        (Outbox, "Outbox"),
        (Outboxes, "Outboxes"),
        (OutboxEntry, "OutboxHealthEntry"),
        (OutboxHealth, "OutboxHealthResponse"),
        (Organization, "Organization"),
        (Health, "Health"),
        (ExternalOrder, "ExternalOrder"),
        (Webhook, "Webhook"),
        (WebhookLane, "Lane"),
    ],
)
def test_a_record_has_what_the_document_says(record: type[Record], schema: str) -> None:
    stated = DOCUMENT["components"]["schemas"][schema]
    fields = msgspec.structs.fields(record)
    assert sorted(field.name for field in fields) == sorted(stated["properties"])
    assert {field.name for field in fields if field.required} <= set(stated["required"])
