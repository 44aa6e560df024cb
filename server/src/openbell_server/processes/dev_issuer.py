"""An issuer of access tokens for one developer: its key is as old as the `dev` that runs, and serves loopback only."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from openbell_server.domain.errors import OperatorError
from openbell_server.domain.principals import PrincipalKind
from openbell_server.processes.children import ProcessStamp

AUDIENCE: Final = "openbell-dev"
TOKEN_TYPE: Final = "at+jwt"  # noqa: S105 - a media type
KEY_ID: Final = "dev"
LIFETIME_SECONDS: Final = 3600
REQUEST_SECONDS: Final = 2
_FILE: Final = "dev-issuer.json"
_NOT_RUNNING: Final = (
    "Tokens are minted only beside a running `openbell-server dev`, in its folder: start it, or get tokens from your"
    " identity provider."
)


class DevIssuer:
    """Makes a key, publishes its public half on 127.0.0.1, and leaves the private one to its owner while it runs."""

    def __init__(self, folder: Path, provider: str) -> None:
        """Provider is the name under which the organizations are known."""
        self._file = folder / _FILE
        self._provider = provider

    def __enter__(self) -> Self:
        """Start to serve."""
        key = Ed25519PrivateKey.generate()
        described = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
        published = json.dumps({"keys": [{**described, "kid": KEY_ID, "use": "sig", "alg": "EdDSA"}]}).encode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(published))
        self._address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        stamp = ProcessStamp.of(os.getpid())
        assert stamp is not None
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        facts = {"pid": stamp.pid, "started": stamp.started, "address": self._address, "key": private}
        self._file.unlink(missing_ok=True)
        with os.fdopen(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            json.dump(facts, file)
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing of it is kept."""
        self._file.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()

    @property
    def setting(self) -> str:
        """The table of issuers, as the processes read it."""
        return json.dumps(
            [
                {
                    "name": _issuer(self._address, kind),
                    "jwks_address": f"{self._address}/jwks",
                    "audience": AUDIENCE,
                    "token_type": TOKEN_TYPE,
                    "kind": kind,
                    "provider": self._provider,
                    "algorithms": ["EdDSA"],
                }
                for kind in (PrincipalKind.USER, PrincipalKind.SERVICE)
            ]
        )


def mint(folder: Path, kind: PrincipalKind, subject: str, claims: dict[str, str]) -> str:
    """An access token of the issuer that runs in this folder."""
    try:
        facts = json.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        raise OperatorError(_NOT_RUNNING) from None
    # One that was killed left its key behind.
    if not ProcessStamp(facts["pid"], facts["started"]).is_running:
        raise OperatorError(_NOT_RUNNING)
    now = int(time.time())
    payload = {
        "iss": _issuer(facts["address"], kind),
        "aud": AUDIENCE,
        "sub": subject,
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        **claims,
    }
    return jwt.encode(payload, facts["key"], algorithm="EdDSA", headers={"kid": KEY_ID, "typ": TOKEN_TYPE})


def _issuer(address: str, kind: PrincipalKind) -> str:
    return f"{address}/{'users' if kind is PrincipalKind.USER else 'services'}"


def _answering(published: bytes) -> type[BaseHTTPRequestHandler]:
    class PublishedKeys(BaseHTTPRequestHandler):
        """Answers one question, and does not wait long for it."""

        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            is_known = self.path == "/jwks"
            self.send_response(200 if is_known else 404)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(published if is_known else b"{}")

        def log_message(self, *_: Any) -> None:  # noqa: ANN401 - whatever the base class passes
            """The terminal is for people."""

    return PublishedKeys
