"""An agent trades through openbell-mcp, with the SDK's own client, on a whole platform."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from openbell_server.devtools.local_platform import LocalPlatform


@asynccontextmanager
async def over_stdio(platform: LocalPlatform) -> AsyncIterator[Client]:
    environment = platform.client_environment()
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "openbell_mcp"], env=environment)
    async with Client(stdio_client(parameters)) as client:
        yield client


async def called(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.structured_content
    content: dict[str, Any] = result.structured_content
    return content


async def test_every_tool_works_over_stdio(platform: LocalPlatform) -> None:
    async with over_stdio(platform) as client:
        print((await client.list_tools()).tools)
        print(await called(client, "whoami"))
        terms = {"symbol": "AAPL", "side": "BUY", "order_type": "MARKET", "quantity": "10"}
        print(await called(client, "check_order", **terms))
        placed = await called(client, "place_order", **terms, idempotency_key="one")
        print(placed)
        waited = await called(client, "wait_for_order", intent_id=placed["intent_id"])
        print(waited)
        for tool in ("positions", "balances", "orders", "receipts"):
            print(await called(client, tool))
        print(await called(client, "explain", receipt_id=placed["receipt_id"]))
        print(await called(client, "events_since", after_seq=0))
        print(await called(client, "order", intent_id=placed["intent_id"]))
        print(await called(client, "halt", reason="enough"))
        print(await client.call_tool("place_order", terms | {"idempotency_key": "two"}))
