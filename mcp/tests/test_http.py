"""HTTP: who is admitted, whose key is used, and the bounds of requests."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_issuer import AUDIENCE, AgentIssuer

from openbell_mcp.http import REQUEST_BYTES_MAX, HttpSettings, build_app

KEY = "ob_paper_0_AAAAAAAAAAAA_" + "s" * 43 + "_BBBBBB"
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
WHO_AM_I = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}


class Served:
    """The server with one agent, ann, and a platform that records what it receives."""

    def __init__(self, http: httpx.AsyncClient, issuer: AgentIssuer, agents: Path) -> None:
        self.http, self.issuer, self.agents = http, issuer, agents
        self.received: list[httpx.Request] = []

    async def post(self, body: Any, token: str | None = None, **headers: str) -> httpx.Response:
        bearer = {} if token is None else {"authorization": f"Bearer {token}"}
        return await self.http.post("/mcp", json=body, headers=HEADERS | bearer | headers)

    def bind(self, agents: dict[str, Any]) -> None:
        self.agents.write_text(json.dumps(agents))


# Not a fixture: the lifespan of the application must end in the task in which it began.
@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[Served]:
    def platform(request: httpx.Request) -> httpx.Response:
        found.received.append(request)
        return httpx.Response(403, json={"code": "permission_denied", "detail": "this needs a permission"})

    issuer, agents, key = AgentIssuer(), tmp_path / "agents.json", tmp_path / "ann.key"
    for path in (agents, key):
        path.touch(mode=0o600)
    key.write_text(f"{KEY}\n")
    agents.write_text(json.dumps({"ann": {"account": "an-account", "key_file": "ann.key"}}))
    settings = HttpSettings("https://openbell.example.com", AUDIENCE, issuer.name, AUDIENCE, agents)
    async with issuer.client() as provider:
        app = build_app(settings, provider, httpx.MockTransport(platform))
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="https://mcp.example.com") as http,
        ):
            found = Served(http, issuer, agents)
            yield found


async def test_without_a_token_the_answer_names_where_to_get_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        refused = await served.post(LIST_TOOLS)
        assert refused.status_code == 401
        metadata = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{metadata}"' in refused.headers["www-authenticate"]
        described = (await served.http.get(metadata)).json()
        assert (described["resource"], described["authorization_servers"]) == (AUDIENCE, ["https://issuer.example.com"])


@pytest.mark.parametrize(
    "claims", [{"aud": "https://other.example.com"}, {"iss": "https://other.example.com"}, {"exp": 1}], ids=str
)
async def test_a_token_for_somebody_else_is_refused(tmp_path: Path, claims: dict[str, Any]) -> None:
    async with serving(tmp_path) as served:
        assert (await served.post(LIST_TOOLS, served.issuer.token(**claims))).status_code == 401
        assert served.received == []


async def test_a_subject_without_a_key_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        refused = await served.post(LIST_TOOLS, served.issuer.token("bob"))
        assert refused.status_code == 403
        assert refused.json()["error_description"] == "No key is bound to you; ask your admin."


async def test_a_call_uses_the_key_of_its_subject_and_never_the_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        token = served.issuer.token("ann")
        answered = await served.post(WHO_AM_I, token)
        assert answered.status_code == 200
        result = answered.json()["result"]
        assert (result["isError"], result["structuredContent"]["code"]) == (True, "permission_denied")
        (request,) = served.received
        assert request.headers["x-api-key"] == KEY
        assert "authorization" not in request.headers
        assert token not in str(request.headers)
        assert KEY not in answered.text


async def test_a_change_of_the_bindings_takes_effect_with_the_next_request(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        token = served.issuer.token("ann")
        assert (await served.post(LIST_TOOLS, token)).status_code == 200
        served.bind({})
        assert (await served.post(LIST_TOOLS, token)).status_code == 403
        served.agents.chmod(0o644)
        assert (await served.post(LIST_TOOLS, token)).status_code == 503


async def test_a_provider_that_cannot_be_reached_is_not_a_wrong_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.issuer.is_down = True
        assert (await served.post(LIST_TOOLS, served.issuer.token())).status_code == 503


async def test_only_requests_of_a_bounded_size_for_this_host_are_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        token = served.issuer.token()
        assert (await served.post({**LIST_TOOLS, "x": "x" * REQUEST_BYTES_MAX}, token)).status_code == 413
        assert (await served.post(LIST_TOOLS, token, host="evil.example.com")).status_code == 421
        assert (await served.post(LIST_TOOLS, token, origin="https://evil.example.com")).status_code == 403
        for method in ("GET", "DELETE"):
            headers = {"authorization": f"Bearer {token}", "accept": "text/event-stream"}
            assert (await served.http.request(method, "/mcp", headers=headers)).status_code == 405


GOOD = {
    "OPENBELL_URL": "https://openbell.example.com",
    "OPENBELL_MCP_URL": "https://mcp.example.com/mcp",
    "OPENBELL_MCP_ISSUER": "https://issuer.example.com",
    "OPENBELL_MCP_AGENTS": "agents.json",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "") for name in GOOD),
        ("OPENBELL_MCP_URL", "http://mcp.example.com/mcp"),
        ("OPENBELL_MCP_URL", "https://mcp.example.com"),
        ("OPENBELL_MCP_ISSUER", "http://issuer.example.com"),
        ("OPENBELL_MCP_ISSUER", "issuer.example.com"),
    ],
)
def test_a_setting_that_is_missing_or_not_safe_is_refused_by_name(name: str, value: str) -> None:
    assert HttpSettings.from_environment(GOOD).audience == "https://mcp.example.com/mcp"
    with pytest.raises(ValueError, match=name):
        HttpSettings.from_environment(GOOD | {name: value})
