"""Callers that go away: nothing is recorded for them, and nobody is alarmed."""

from collections.abc import MutableMapping
from typing import Any

from structlog.testing import capture_logs

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.processes.rest_wiring import rest_app
from support.builders.tenant import Tenant
from support.rest.rest_api import intents_of, rest_dependencies


async def test_a_caller_that_leaves_before_its_body_came_is_no_failure_of_ours(pool: Pool, tenant: Tenant) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": intents_of(tenant),
        "raw_path": intents_of(tenant).encode(),
        "query_string": b"",
        "headers": [(b"x-api-key", tenant.key.encode()), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    with capture_logs() as lines:
        app = rest_app(rest_dependencies(pool))
        await app(scope, receive, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == 400
    assert [line["event"] for line in lines] == ["request"]
    assert await pool.fetchval("select count(*) from intent_actions") == 0
