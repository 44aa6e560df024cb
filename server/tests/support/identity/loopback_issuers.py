"""The tests' identity provider for real processes: its keys at loopback addresses, its tokens by the real clock."""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

from openbell_server.devtools.local_platform import IDENTITY_PROVIDER
from openbell_server.domain.access.access_tokens import Issuer
from support.identity.identity_provider import MACHINES, PEOPLE, good_token, published_keys

LIFETIME_SECONDS = 1800


class _Keys(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = published_keys(self.path.strip("/"))
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class LoopbackIssuers:
    """Publishes the keys while it is open."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Keys)
        self._thread = Thread(target=self._server.serve_forever)

    @property
    def setting(self) -> str:
        """OPENBELL_ISSUERS of a process that is to believe the tokens."""
        return json.dumps([self._row(PEOPLE, "people"), self._row(MACHINES, "machines")])

    def _row(self, issuer: Issuer, owner: str) -> dict[str, str | None]:
        return {
            "name": issuer.name,
            "jwks_address": f"http://127.0.0.1:{self._server.server_port}/{owner}",
            "audience": issuer.audience,
            "token_type": issuer.token_type,
            "kind": issuer.kind,
            "provider": IDENTITY_PROVIDER,
        }

    def __enter__(self) -> Self:
        # Made before the first request: two of them at once would make two keys.
        published_keys("people"), published_keys("machines")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def bearer(algorithm: str = "EdDSA", issuer: Issuer = PEOPLE, **claims: Any) -> str:
    """The value of an Authorization header with a token that is good now."""
    now = int(time.time())
    times = {"iat": now - 60, "nbf": now - 60, "exp": now + LIFETIME_SECONDS}
    return f"Bearer {good_token(algorithm, issuer, **(times | claims))}"
