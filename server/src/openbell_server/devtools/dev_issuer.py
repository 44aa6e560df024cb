"""A token issuer for development: a new key for each run of `dev`, served on loopback only."""

import json
import os
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from openbell_server.devtools.child_processes import ProcessStamp
from openbell_server.devtools.dev_sign_in import CONSOLE_CLIENT, CodeFlow, Reply
from openbell_server.devtools.local_platform import ACME
from openbell_server.domain.access.principals import PrincipalKind, Role
from openbell_server.domain.errors import OperatorError

AUDIENCE: Final = "openbell-dev"
TOKEN_TYPE: Final = "at+jwt"  # noqa: S105 - a media type
KEY_ID: Final = "dev"
LIFETIME_SECONDS: Final = 3600
REQUEST_SECONDS: Final = 2
# Of the device flow (RFC 8628).
CODE_SECONDS: Final = 60
POLL_SECONDS: Final = 1
FORM_BYTES_MAX: Final = 4096
DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
USER: Final = "you"
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
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        described = jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
        # Whoever knows the client id is signed in without a question, so it is random and only in the owner's files.
        self._client_id = f"dev-{secrets.token_urlsafe(24)}"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _IssuerRequest)
        self._address = f"http://127.0.0.1:{self._server.server_port}"
        replies = _Replies(self._address, private, self._client_id)
        self._sign_in = replies.sign_in
        replies.pages["/jwks"] = {"keys": [{**described, "kid": KEY_ID, "use": "sig", "alg": "EdDSA"}]}
        self._server.replies = replies  # type: ignore[attr-defined]  # read by the handler
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        stamp = ProcessStamp.of(os.getpid())
        assert stamp is not None
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
    def login_environment(self) -> dict[str, str]:
        """Settings of `openbell login`."""
        return {
            "OPENBELL_LOGIN_ISSUER": _issuer(self._address, PrincipalKind.USER),
            "OPENBELL_LOGIN_CLIENT_ID": self._client_id,
        }

    def console_environment(self, url: str) -> dict[str, str]:
        """Settings of the console at this address, which alone may sign users in."""
        self._sign_in.redirect = f"{url}/console/callback"
        return {
            "OPENBELL_CONSOLE_URL": url,
            "OPENBELL_CONSOLE_ISSUER": _issuer(self._address, PrincipalKind.USER),
            "OPENBELL_CONSOLE_CLIENT_ID": CONSOLE_CLIENT,
        }

    @property
    def sign_in_key(self) -> str:
        """A sign-in to the console needs it as login_hint."""
        return self._sign_in.key

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
    return _signed(facts["key"], facts["address"], kind, subject, claims)


def _signed(key: str, address: str, kind: PrincipalKind, subject: str, claims: dict[str, str]) -> str:
    now = int(time.time())
    payload = {
        "iss": _issuer(address, kind),
        "aud": AUDIENCE,
        "sub": subject,
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        **claims,
    }
    return jwt.encode(payload, key, algorithm="EdDSA", headers={"kid": KEY_ID, "typ": TOKEN_TYPE})


def _id_token(key: str, address: str, client_id: str, nonce: str) -> str:
    now = int(time.time())
    issuer = _issuer(address, PrincipalKind.USER)
    payload = {"iss": issuer, "aud": client_id, "sub": USER, "iat": now, "exp": now + CODE_SECONDS, "nonce": nonce}
    return jwt.encode(payload, key, algorithm="EdDSA", headers={"kid": KEY_ID})


def _issuer(address: str, kind: PrincipalKind) -> str:
    return f"{address}/{'users' if kind is PrincipalKind.USER else 'services'}"


class _Replies:
    """The issuer's pages, the console's sign-in, and a device flow, which confirms every code by itself."""

    def __init__(self, address: str, key: str, client_id: str) -> None:
        self._address, self._key, self._client_id = address, key, client_id
        # Each code, and until when it is valid.
        self._codes: dict[str, float] = {}
        self._issuer = _issuer(address, PrincipalKind.USER)
        self.sign_in = CodeFlow(
            self._access_token, lambda client_id, nonce: _id_token(key, address, client_id, nonce), LIFETIME_SECONDS
        )
        self.pages: dict[str, dict[str, Any]] = {
            "/users/device": {"message": "openbell-server dev confirms codes by itself: return to your terminal."},
            "/users/.well-known/openid-configuration": {
                "issuer": self._issuer,
                "jwks_uri": f"{address}/jwks",
                "device_authorization_endpoint": f"{self._issuer}/device",
                "token_endpoint": f"{self._issuer}/token",
                "authorization_endpoint": f"{self._issuer}/authorize",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "id_token_signing_alg_values_supported": ["EdDSA"],
                "token_endpoint_auth_methods_supported": ["none"],
            },
        }

    def post(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if path not in ("/users/device", "/users/token"):
            return 404, {}
        if path == "/users/token" and form.get("client_id") == CONSOLE_CLIENT:
            return self.sign_in.token(form)
        if not secrets.compare_digest(form.get("client_id", "").encode(), self._client_id.encode()):
            return 401, {"error": "invalid_client"}
        return self._new_code() if path == "/users/device" else self._token(form)

    def _new_code(self) -> tuple[int, dict[str, Any]]:
        code, now = secrets.token_urlsafe(24), time.monotonic()
        self._codes = {each: until for each, until in self._codes.items() if until > now} | {code: now + CODE_SECONDS}
        shown = "".join(secrets.choice("BCDFGHJKLMNPQRSTVWXZ") for _ in range(8))
        return 200, {
            "device_code": code,
            "user_code": f"{shown[:4]}-{shown[4:]}",
            "verification_uri": f"{self._issuer}/device",
            "expires_in": CODE_SECONDS,
            "interval": POLL_SECONDS,
        }

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if form.get("grant_type") != DEVICE_GRANT:
            return 400, {"error": "unsupported_grant_type"}
        if self._codes.pop(form.get("device_code", ""), 0.0) < time.monotonic():
            return 400, {"error": "expired_token"}
        return 200, {
            "access_token": self._access_token(Role.ADMIN),
            "token_type": "Bearer",
            "expires_in": LIFETIME_SECONDS,
        }

    def _access_token(self, role: Role) -> str:
        claims = {"org_id": ACME, "role": str(role)}
        return _signed(self._key, self._address, PrincipalKind.USER, USER, claims)


class _IssuerRequest(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS

    @property
    def _replies(self) -> _Replies:
        replies: _Replies = self.server.replies  # type: ignore[attr-defined]  # set by DevIssuer
        return replies

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        read = {name: values[0] for name, values in parse_qs(query, max_num_fields=50).items()}
        if path == "/users/authorize":
            self._show(self._replies.sign_in.authorize(read, self.headers.get("cookie", "")))
        elif path == "/users/choose":
            self._show(self._replies.sign_in.choose(read))
        else:
            page = self._replies.pages.get(self.path)
            self._send(404 if page is None else 200, page or {})

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not (length.isdecimal() and int(length) <= FORM_BYTES_MAX):
            self._send(400, {"error": "invalid_request"})
            return
        read = parse_qs(self.rfile.read(int(length)).decode(errors="replace"))
        self._send(*self._replies.post(self.path, {name: values[0] for name, values in read.items()}))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def _show(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body.encode())

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - as in the base class
        """Does nothing, so that requests do not clutter the terminal."""
