"""A credential that cannot be checked, because our database or its issuer's keys are away, is never called wrong."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import grpc
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ENTROPY_BYTES, mint
from openbell_server.transport.stream import server
from support.identity.identity_provider import Verifier, good_token
from support.rest.event_streams import event_stream
from support.rest.rest_api import rest_api

OPENAPI = Path(__file__).parents[4] / "docs/openapi.json"
KEY = {"x-api-key": mint(Environment.PAPER, bytes(ENTROPY_BYTES))[0]}
TOKEN = {"authorization": f"Bearer {good_token()}"}
# A token is verified, and then its caller is read from the database; or its issuer's keys cannot be read.
CASES = [
    pytest.param(KEY, Verifier(), id="key-without-database"),
    pytest.param(TOKEN, Verifier(), id="token-without-database"),
    pytest.param(TOKEN, Verifier(published={"people": b"busy"}), id="token-without-keys"),
]
METHODS = [
    "/trading.TradingService/SubscribeEvents",
    "/trading.TradingService/StreamEvents",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/trading.TradingService/Unknown",
]


@pytest.fixture
async def no_database() -> AsyncIterator[Pool]:
    """A pool for an address where nobody listens."""
    async with asyncpg.create_pool(f"postgresql://127.0.0.1:{free_port()}/none", min_size=0, timeout=5) as pool:
        yield pool


@pytest.mark.parametrize(("headers", "verifier"), CASES)
async def test_every_operation_of_the_rest_interface_answers_503(
    no_database: Pool, headers: dict[str, str], verifier: Verifier
) -> None:
    answers = {}
    async with rest_api(no_database, tokens=verifier.tokens) as api:
        for path, operations in json.loads(OPENAPI.read_text())["paths"].items():
            for method, operation in operations.items():
                if operation.get("security") == []:
                    continue
                url = re.sub(r"\{\w+\}", str(UUID(int=7)), path)
                sent = headers | ({"content-type": "application/json"} if method != "get" else {})
                answer = await api.client.request(method, url, headers=sent)
                answers[f"{method} {path}"] = answer.status_code
    assert len(answers) > 50
    assert {operation: status for operation, status in answers.items() if status != 503} == {}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("headers", "verifier"), CASES)
async def test_every_grpc_method_answers_unavailable(
    no_database: Pool, headers: dict[str, str], verifier: Verifier, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the status may need longer than a second.
    monkeypatch.setattr(server, "ABORT_SECONDS", 60.0)
    # Where the server ends the call first, the library fails to send and hides the server's status.
    unsent = "SendMessageOperation"
    async with (
        event_stream(no_database, tokens=verifier.tokens) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        send: Any = channel.stream_stream(method)
        async with asyncio.timeout(60):
            while True:
                call = send(iter([b""]), metadata=tuple(headers.items()), timeout=60)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call.read()
                if unsent not in (refused.value.debug_error_string() or ""):
                    break
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert dict(refused.value.trailing_metadata() or ())["openbell-code"] == "unavailable"
