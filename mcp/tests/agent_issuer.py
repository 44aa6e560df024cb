"""An OpenID provider for agents, which signs whatever a test needs."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "https://mcp.example.com/mcp"


class AgentIssuer:
    """Keys, the documents that show them, and tokens signed by them."""

    def __init__(self, name: str = "https://issuer.example.com") -> None:
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.key_id = "one"
        self.fetches = 0
        self.is_down = False

    @property
    def documents(self) -> dict[str, dict[str, Any]]:
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return {
            "/.well-known/openid-configuration": {"issuer": self.name, "jwks_uri": f"{self.name}/keys"},
            "/keys": {"keys": [{**public, "kid": self.key_id, "use": "sig", "alg": "ES256"}]},
        }

    def token(self, subject: str = "ann", *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A valid token, unless a claim or a header is given otherwise; a claim that is None is left out."""
        good = {"iss": self.name, "aud": AUDIENCE, "sub": subject, "exp": int(time.time()) + 600}
        payload = {name: value for name, value in (good | claims).items() if value is not None}
        return jwt.encode(payload, self.key, "ES256", headers={"kid": self.key_id, **(header or {})})

    def answer(self, path: str) -> tuple[int, bytes]:
        self.fetches += 1
        found = self.documents.get(path)
        if self.is_down or found is None:
            return 503, b"down"
        return 200, json.dumps(found).encode()

    def client(self) -> httpx.AsyncClient:
        """A client that reaches this issuer only."""

        def answer(request: httpx.Request) -> httpx.Response:
            status, body = self.answer(request.url.path)
            return httpx.Response(status, stream=httpx.ByteStream(body))

        return httpx.AsyncClient(transport=httpx.MockTransport(answer))


@contextmanager
def issuer_on_a_port() -> Iterator[AgentIssuer]:
    """The issuer on loopback, for servers that are processes."""

    class Documents(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name in the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Documents) as server:
        issuer = AgentIssuer(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join(60)
