"""An OpenID provider: its metadata, and the tokens that it issues to the console.

Every call has one deadline and a limit on the size of its answer; nothing is retried or redirected.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httpx
import structlog

from openbell_server.adapters.identity.jwks import IssuerKeys
from openbell_server.adapters.identity.tokens import TOKEN_BYTES_MAX, check_signature, read_compact
from openbell_server.application.console.ports import ProviderAway, SignedIn, SignInRefused, Tokens
from openbell_server.domain import strict_json
from openbell_server.domain.access.access_tokens import Issuer, TokenRefused, is_safe_address, read_id_token
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.errors import OperatorError, Problem

CALL_SECONDS: Final = 5.0
BYTES_MAX: Final = 256 * 1024
METADATA_SECONDS: Final = 600.0
# Of a token whose lifetime the provider does not state.
TOKEN_SECONDS: Final = 300.0
TOKEN_SECONDS_MAX: Final = 24 * 3600.0
# Only its issue at this moment counts, so a long life is no danger.
ID_TOKEN_SECONDS_MAX: Final = 7 * 24 * 3600
_REFUSED: Final = frozenset({400, 401, 403})
_WRONG_CLIENT: Final = frozenset({"invalid_client", "unauthorized_client"})


class OpenIdConnect:
    """Implements OpenIdProvider for one client of one provider. The caller closes the HTTP client."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        issuer: str,
        client_id: str,
        client_secret: str = "",
        audience: str = "",
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not is_safe_address(issuer):
            raise OperatorError(f"OPENBELL_CONSOLE_ISSUER must be https: {issuer}")
        self._client = client
        self._issuer = issuer
        self._client_id = client_id
        self._secret = client_secret
        # RFC 8707 has `resource`; Auth0 reads `audience`.
        self._target = {"audience": audience, "resource": audience} if audience else {}
        self._now = now
        self._monotonic = monotonic
        self._metadata: Mapping[str, Any] = {}
        self._read_at = float("-inf")
        self._keys: tuple[str, Issuer, IssuerKeys] | None = None

    async def sign_in_address(
        self, *, redirect: str, state: str, nonce: str, challenge: str, login_hint: str | None
    ) -> str:
        metadata = await self._discovered()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect,
            "scope": _scope(metadata),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **self._target,
            **({"login_hint": login_hint} if login_hint else {}),
        }
        address = self._endpoint(metadata, "authorization_endpoint")
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"

    async def redeem(self, code: str, *, redirect: str, verifier: str, nonce: str) -> SignedIn:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
        answer = await self._token(form)
        id_token = answer.get("id_token")
        if not isinstance(id_token, str):
            raise SignInRefused("no_id_token")
        return SignedIn(self._issuer, await self._subject(id_token, nonce), _tokens(answer))

    async def refresh(self, refresh_token: str) -> Tokens:
        return _tokens(await self._token({"grant_type": "refresh_token", "refresh_token": refresh_token}))

    async def _subject(self, id_token: str, nonce: str) -> str:
        if not id_token.isascii() or len(id_token) > TOKEN_BYTES_MAX:
            raise SignInRefused("malformed")
        issuer, keys = self._signer(await self._discovered())
        try:
            header, payload = read_compact(id_token)
            await check_signature(id_token, issuer, header, keys)
            return read_id_token(issuer, payload, nonce, self._now())
        except TokenRefused as refused:
            raise SignInRefused(f"id_token_{refused.reason}") from None
        except Problem as problem:
            raise ProviderAway(problem.detail) from None

    def _signer(self, metadata: Mapping[str, Any]) -> tuple[Issuer, IssuerKeys]:
        address = self._endpoint(metadata, "jwks_uri")
        if self._keys is None or self._keys[0] != address:
            issuer = Issuer(
                name=self._issuer,
                jwks_address=address,
                audience=self._client_id,
                token_type=None,
                kind=PrincipalKind.USER,
                lifetime_seconds=ID_TOKEN_SECONDS_MAX,
            )
            self._keys = address, issuer, IssuerKeys(issuer, self._client, self._monotonic)
        return self._keys[1:]

    async def _discovered(self) -> Mapping[str, Any]:
        """The provider's metadata; while it is away, the last one."""
        if self._monotonic() - self._read_at < METADATA_SECONDS:
            return self._metadata
        address = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            self._metadata = await self._described(address)
        except ProviderAway as trouble:
            structlog.get_logger().warning("provider_not_discovered", issuer=self._issuer, error=str(trouble))
            if not self._metadata:
                raise
        else:
            self._read_at = self._monotonic()
        return self._metadata

    async def _described(self, address: str) -> Mapping[str, Any]:
        status, found = await self._call("GET", address)
        if status != httpx.codes.OK:
            raise ProviderAway(f"its metadata has the status {status}")
        # The metadata of another issuer would send the code somewhere else.
        if found.get("issuer") != self._issuer:
            raise ProviderAway("its metadata is that of another issuer")
        return found

    @staticmethod
    def _endpoint(metadata: Mapping[str, Any], name: str) -> str:
        address = metadata.get(name)
        if not isinstance(address, str) or not is_safe_address(address):
            raise ProviderAway(f"its metadata has no safe {name}")
        return address

    async def _token(self, form: dict[str, str]) -> Mapping[str, Any]:
        metadata = await self._discovered()
        address = self._endpoint(metadata, "token_endpoint")
        form = form | {"client_id": self._client_id} | self._target
        authentication = None
        if self._secret:
            methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
            if isinstance(methods, list) and "client_secret_basic" in methods:
                # RFC 6749, 2.3.1: both are encoded first.
                authentication = httpx.BasicAuth(quote(self._client_id, safe=""), quote(self._secret, safe=""))
            else:
                form["client_secret"] = self._secret
        status, answer = await self._call("POST", address, form, authentication)
        if status in _REFUSED:
            error = _code(answer.get("error"))
            structlog.get_logger().warning("provider_refused", grant=form["grant_type"], error=error)
            if error in _WRONG_CLIENT:
                # A mistake in the settings, which is no reason to end sessions.
                raise ProviderAway(f"it refuses the console's client: {error}")
            raise SignInRefused("refused_by_provider")
        if status != httpx.codes.OK:
            raise ProviderAway(f"its token endpoint has the status {status}")
        return answer

    async def _call(
        self, method: str, address: str, form: dict[str, str] | None = None, auth: httpx.Auth | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        body = bytearray()
        try:
            async with (
                asyncio.timeout(CALL_SECONDS),
                self._client.stream(
                    method, address, headers=headers, data=form, auth=auth, timeout=None, follow_redirects=False
                ) as response,
            ):
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > BYTES_MAX:
                        raise ProviderAway(f"an answer of more than {BYTES_MAX} bytes")
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as trouble:
            # Not its text, which may have what was sent.
            raise ProviderAway(type(trouble).__name__) from None
        try:
            found = strict_json.decode(bytes(body))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            if response.status_code in _REFUSED:
                return response.status_code, {}
            raise ProviderAway("an answer that is no JSON object")
        return response.status_code, found


def _tokens(answer: Mapping[str, Any]) -> Tokens:
    access, refresh, seconds = (answer.get(name) for name in ("access_token", "refresh_token", "expires_in"))
    # It becomes a header: nothing but visible characters.
    if not _is_token(access) or str(answer.get("token_type", "")).lower() != "bearer":
        raise SignInRefused("no_access_token")
    if refresh is not None and not _is_token(refresh):
        raise SignInRefused("bad_refresh_token")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        seconds = TOKEN_SECONDS
    lifetime = min(float(seconds), TOKEN_SECONDS_MAX)
    return Tokens(str(access), refresh, lifetime, lifetime)


def _is_token(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= TOKEN_BYTES_MAX and all("!" <= each <= "~" for each in value)


def _scope(metadata: Mapping[str, Any]) -> str:
    supported = metadata.get("scopes_supported")
    has_refresh = isinstance(supported, list) and "offline_access" in supported
    return "openid offline_access" if has_refresh else "openid"


def _code(error: object) -> str:
    """An OAuth error code for the log; any other text of the provider is left out."""
    return error if isinstance(error, str) and len(error) <= 64 and error.replace("_", "").isalnum() else "unknown"
