"""A token issuer for development: a new key for each run of `dev`, served on loopback only."""

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

from openbell_server.devtools.child_processes import ProcessStamp
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.errors import OperatorError

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
    """Creates a key, publishes its public half on 127.0.0.1, and stores the private half in a file while it runs."""

    def __init__(self, folder: Path, provider: str) -> None:
        self._file = folder / _FILE
        self._provider = provider

    def __enter__(self) -> Self:
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
        self._file.unlink(missing_ok=True)
        self._server.shutdown()
        self._server.server_close()

    @property
    def setting(self) -> str:
        """The value of OPENBELL_ISSUERS."""
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
    """Create an access token of the issuer that runs in this folder; raises OperatorError if none runs."""
    try:
        facts = json.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        raise OperatorError(_NOT_RUNNING) from None
    # A killed issuer leaves its key file behind.
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
        """Serves /jwks."""

        timeout = REQUEST_SECONDS

        def do_GET(self) -> None:
            is_known = self.path == "/jwks"
            self.send_response(200 if is_known else 404)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(published if is_known else b"{}")

        def log_message(self, *_: Any) -> None:  # noqa: ANN401 - as in the base class
            """Does nothing, so that requests do not clutter the terminal."""

    return PublishedKeys
