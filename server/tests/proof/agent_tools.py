"""Hostile calls of an agent as calls of tools, through openbell-mcp and the MCP library's own client."""

import itertools
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from proof.agent_attacks import HostileCall, Reply, Transport

_TYPES: Final = {"Market": "MARKET", "Limit": "LIMIT", "Stop": "STOP", "StopLimit": "STOP_LIMIT"}
_PRICES: Final = {"price": "limit_price", "limit_price": "limit_price", "stop_price": "stop_price"}


@asynccontextmanager
async def over_tools(given: Mapping[str, str], api_key: str, account: str, servers: int) -> AsyncIterator[Transport]:
    """Calls take turns at so many servers with the agent's key, each of which serves 8 calls at once."""
    environment = {"OPENBELL_URL": given["OPENBELL_URL"], "OPENBELL_API_KEY": api_key, "OPENBELL_ACCOUNT": account}
    server = StdioServerParameters(command=sys.executable, args=["-m", "openbell_mcp"], env=environment)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(stdio_client(server))) for _ in range(servers)]
        turns, numbers = itertools.cycle(clients), itertools.count()

        async def send(call: HostileCall) -> Reply:
            tool, arguments = _tool_of(call, account, next(numbers))
            result = await next(turns).call_tool(tool, arguments)
            content = result.structured_content or {}
            if not result.is_error:
                return Reply(status=200, code=None, receipt_id=None)
            code = content.get("code", "no_such_tool")
            status = 500 if code == "internal_error" else 422
            return Reply(status=status, code=code, receipt_id=content.get("receipt_id"))

        yield send


def _tool_of(call: HostileCall, account: str, number: int) -> tuple[str, dict[str, Any]]:
    """The tool that comes nearest to the request; one for rules, switches and keys does not exist."""
    if not isinstance(call.body, dict) or "command" not in call.body:
        return f"set_{call.name.replace(' ', '_')}", {"path": call.path, "body": call.body}
    command, sent_key = call.body["command"], call.headers.get("idempotency-key")
    payload, arguments = command["payload"], {"idempotency_key": sent_key or f"attack-{number}"}
    if f"/{account}/" not in call.path:
        arguments["account_id"] = call.path.split("/")[3]
    for name in ("allow_duplicate", "client_reference_id"):
        if name in call.body:
            arguments[name] = call.body[name]
    if command["type"] != "CREATE":
        arguments["intent_id"] = payload["ref_intent_id"]
    if command["type"] == "CANCEL":
        return "cancel_order", arguments
    ((kind, spec),) = payload["spec"].items()
    arguments |= {"order_type": _TYPES[kind], **{_PRICES.get(name, name): value for name, value in spec.items()}}
    if command["type"] == "REPLACE":
        return "replace_order", arguments
    return "place_order", arguments | {"symbol": payload["symbol"], "side": payload["order_side"]}
