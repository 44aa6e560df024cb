"""The server over streamable HTTP: an OAuth resource server that maps each subject to the key bound to it."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from openbell.async_client import AsyncClient
from openbell.connection import connect, is_loopback
from openbell_mcp.bindings import Binding, Bindings
from openbell_mcp.server import REQUEST_SECONDS, Context, build_server
from openbell_mcp.tokens import FETCH_SECONDS, IssuerKeys, Tokens, Unavailable

REQUEST_BYTES_MAX: Final = 64 * 1024
# Connections that are open at once; further ones are answered 503.
CONNECTIONS_MAX: Final = 128
PLATFORM_CONNECTIONS_MAX: Final = 64
# For calls that run when the server stops; an agent repeats a command whose answer it did not get.
GRACE_SECONDS: Final = 5
_BINDING: Final = "openbell_mcp.binding"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What the operator sets."""

    # The platform.
    url: str
    # Where agents reach this server, path included.
    resource: str
    issuer: str
    audience: str
    agents: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Raises ValueError if a setting is missing or malformed."""
        names = ("OPENBELL_URL", "OPENBELL_MCP_URL", "OPENBELL_MCP_ISSUER", "OPENBELL_MCP_AGENTS")
        values = [environment.get(name, "") for name in names]
        if missing := [name for name, value in zip(names, values, strict=True) if not value]:
            raise ValueError(f"{', '.join(missing)} must be set; see docs/agents.md.")
        url, resource, issuer, agents = values
        for name, value in (("OPENBELL_MCP_URL", resource), ("OPENBELL_MCP_ISSUER", issuer)):
            parts = urlsplit(value)
            is_encrypted = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
            if not is_encrypted or not parts.hostname or parts.query or parts.fragment:
                raise ValueError(f"{name} must be an address like https://mcp.example.com/mcp, not {value!r}.")
        if urlsplit(resource).path in ("", "/"):
            raise ValueError(f"OPENBELL_MCP_URL must have a path, such as /mcp; it is {resource!r}.")
        return cls(url, resource, issuer, environment.get("OPENBELL_MCP_AUDIENCE") or resource, Path(agents))


async def serve(settings: HttpSettings, host: str, port: int) -> None:
    """Serve until a signal; raises ValueError or NotConfigured if a setting cannot be used."""
    # One set of connections for the keys of all agents; each request carries its own key.
    limits = httpx.Limits(max_connections=PLATFORM_CONNECTIONS_MAX)
    async with (
        httpx.AsyncClient(timeout=FETCH_SECONDS) as provider,
        httpx.AsyncHTTPTransport(limits=limits) as platform,
    ):
        config = uvicorn.Config(
            build_app(settings, provider, platform),
            host=host,
            port=port,
            limit_concurrency=CONNECTIONS_MAX,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ws="none",
        )
        await uvicorn.Server(config).serve()


def build_app(settings: HttpSettings, provider: httpx.AsyncClient, platform: httpx.AsyncBaseTransport) -> Starlette:
    """The application; `provider` fetches keys of the OpenID provider, `platform` carries the agents' calls."""
    bindings = Bindings(settings.agents)
    bindings.check()
    # Checks the address before the first call.
    connect("none", settings.url, None, None, REQUEST_SECONDS)

    def client_of(context: Context) -> AsyncClient:
        assert context.request is not None, "over HTTP there is always a request"
        binding: Binding = context.request.scope[_BINDING]
        return AsyncClient(
            binding.key, settings.url, account_id=binding.account, timeout=REQUEST_SECONDS, transport=platform
        )

    resource = urlsplit(settings.resource)
    app = build_server(client_of).streamable_http_app(
        streamable_http_path=resource.path,
        # No sessions: a restart loses nothing, and any replica serves any request.
        stateless_http=True,
        json_response=True,
        max_request_body_size=REQUEST_BYTES_MAX,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[resource.netloc, "127.0.0.1:*", "localhost:*", "[::1]:*"],
            allowed_origins=[f"{resource.scheme}://{resource.netloc}"],
        ),
        auth=AuthSettings.model_validate(
            {
                "issuer_url": settings.issuer,
                "resource_server_url": settings.resource,
                # Tokens checks the audience.
                "validate_token_resource": False,
            }
        ),
        token_verifier=Tokens(settings.issuer, settings.audience, IssuerKeys(settings.issuer, provider, monotonic)),
    )
    # The first is the outermost; the last runs after the SDK has verified the token.
    app.user_middleware.insert(0, Middleware(ReportUnavailable))
    app.user_middleware.append(Middleware(RequireBinding, bindings=bindings))
    return app


class RequireBinding:
    """Admits a verified subject only if a key is bound to it."""

    def __init__(self, app: ASGIApp, bindings: Bindings) -> None:
        self._app, self._bindings = app, bindings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = scope.get("user")
        if isinstance(user, AuthenticatedUser):
            # Without sessions there is nothing to follow with GET, and nothing to end with DELETE.
            if scope["method"] != "POST":
                await _refuse(send, 405, "method_not_allowed", "Use POST: this server has no sessions.")
                return
            binding = self._bindings.of(user.access_token.subject or "")
            if binding is None:
                await _refuse(send, 403, "no_key_bound", "No key is bound to you; ask your admin.")
                return
            scope[_BINDING] = binding
        await self._app(scope, receive, send)


class ReportUnavailable:
    """Answers 503 if it cannot be decided who the caller is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Unavailable as error:
            _LOG.warning("%s (%r)", error, error.__cause__)
            await _refuse(send, 503, "unavailable", str(error))


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": code, "error_description": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 405:
        headers.append((b"allow", b"POST"))
    start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
