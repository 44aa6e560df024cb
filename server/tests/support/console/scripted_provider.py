"""An OpenID provider whose answers a test decides: the identity provider is outside of us."""

import base64
import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt

from openbell_server.devtools.child_processes import free_port
from support.identity.identity_provider import PEOPLE, good_token, jwk, private_key

CLIENT = "the-console"
KEY_ID = "id-tokens"


@dataclass(slots=True)
class ScriptedProvider:
    """Signs every browser in as `subject`; the claims of its tokens and the status of its answers may be changed."""

    # The organization at the provider.
    organization: str
    subject: str = "maya"
    role: str = "admin"
    lifetime: float = 3600
    has_refresh_tokens: bool = True
    # Claims of the id token that differ from the right ones; None: without the claim.
    wrong: dict[str, Any] = field(default_factory=dict)
    # The answer of the token endpoint to a refresh, if it is not to be the right one.
    refresh_answer: tuple[int, dict[str, Any]] | None = None
    is_away: bool = False
    refreshes: list[str] = field(default_factory=list)
    issued: list[str] = field(default_factory=list)
    port: int = field(default_factory=free_port)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _valid: set[str] = field(default_factory=set)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        if scope["type"] != "http":
            return
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        text = body if scope["method"] == "POST" else scope["query_string"]
        status, headers, answer = self._answer(scope["path"], dict(parse_qsl(text.decode())))
        content = json.dumps(answer).encode()
        headers = [*headers, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _answer(self, path: str, sent: dict[str, str]) -> tuple[int, list[tuple[bytes, bytes]], dict[str, Any]]:
        if path == "/.well-known/openid-configuration":
            endpoints = {
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
            return 200, [], {"issuer": self.issuer, "scopes_supported": ["openid", "offline_access"], **endpoints}
        if path == "/keys":
            return 200, [], {"keys": [jwk(private_key("EdDSA", "console"), KEY_ID)]}
        if path == "/authorize":
            code = f"code-{len(self._codes)}"
            self._codes[code] = sent
            back = f"{sent['redirect_uri']}?{urlencode({'code': code, 'state': sent['state']})}"
            return 303, [(b"location", back.encode())], {}
        if path == "/token" and self.is_away:
            return 503, [], {}
        if path == "/token":
            status, answer = self._refresh(sent) if sent["grant_type"] == "refresh_token" else self._redeem(sent)
            return status, [], answer
        return 404, [], {}

    def _redeem(self, sent: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self._codes.pop(sent["code"], None)
        digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["code_challenge_method"] != "S256"
            or asked["code_challenge"] != challenge
            or (asked["redirect_uri"], asked["client_id"]) != (sent["redirect_uri"], sent["client_id"])
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        right = {"iss": self.issuer, "aud": CLIENT, "sub": self.subject, "nonce": asked["nonce"]}
        claims = right | {"iat": now, "exp": now + 300} | self.wrong
        claims = {name: value for name, value in claims.items() if value is not None}
        id_token = jwt.encode(
            claims,
            private_key("EdDSA", "console"),
            algorithm="EdDSA",
            headers={"kid": KEY_ID},
        )
        return 200, self._tokens() | {"id_token": id_token}

    def _refresh(self, sent: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.refreshes.append(sent["refresh_token"])
        if self.refresh_answer is not None:
            return self.refresh_answer
        if sent["refresh_token"] not in self._valid:
            return 400, {"error": "invalid_grant"}
        # Each is valid once.
        self._valid.remove(sent["refresh_token"])
        return 200, self._tokens()

    def _tokens(self) -> dict[str, Any]:
        number = len(self.issued)
        access = good_token(
            "EdDSA", PEOPLE, sub=self.subject, org_id=self.organization, role=self.role, jti=f"token {number}"
        )
        tokens: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "expires_in": self.lifetime}
        self.issued.append(access)
        if self.has_refresh_tokens:
            tokens["refresh_token"] = f"refresh-{number}"
            self.issued.append(tokens["refresh_token"])
            self._valid.add(tokens["refresh_token"])
        return tokens
