"""Tokens from an OpenID provider: the device authorization grant (RFC 8628), and the refresh of a token."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from openbell.cli.outcomes import SignInFailed
from openbell.connection import is_loopback
from openbell.errors import NotConfigured, Unreachable

REQUEST_SECONDS: Final = 10.0
# The longest time that a code is waited for, whatever the provider allows.
WAIT_SECONDS_MAX: Final = 1800
DEFAULT_INTERVAL: Final = 5
SLOW_DOWN_SECONDS: Final = 5
LIFETIME_SECONDS_MAX: Final = 366 * 86_400
DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_AGAIN: Final = "Run the command again for a new code."


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    access_token: str
    # Seconds; None if the provider does not report it.
    expires_in: int | None
    refresh_token: str | None


@dataclass(frozen=True, slots=True)
class Code:
    """A code that the user confirms at an address."""

    user_code: str
    address: str


class Provider:
    """An OpenID provider, found by its issuer; raises Unreachable, NotConfigured or SignInFailed."""

    def __init__(self, issuer: str, client_id: str, audience: str | None = None) -> None:
        self._issuer, self._client_id = _checked(issuer, "The issuer").rstrip("/"), client_id
        # RFC 8707 has `resource`; Auth0 reads `audience`.
        target = {"audience": audience, "resource": audience} if audience else {}
        self._common = {"client_id": client_id, **target}
        self._metadata = self._discover()

    def sign_in(self, scope: str | None, show: Callable[[Code], None]) -> Tokens:
        """Request a code, show it, and poll until the user confirms or denies it, or it expires."""
        given = self._post("device_authorization_endpoint", {"scope": scope or self._default_scope()})
        if "error" in given:
            raise self._refused(given)
        try:
            device_code, lifetime = str(given["device_code"]), int(given["expires_in"])
            interval = max(1, int(given.get("interval", DEFAULT_INTERVAL)))
            address = given.get("verification_uri_complete") or given["verification_uri"]
            code = Code(str(given["user_code"]), _checked(str(address), "The address for the code"))
        except (KeyError, ValueError, TypeError, OverflowError):
            raise self._unreadable() from None
        show(code)
        return self._poll(device_code, min(lifetime, WAIT_SECONDS_MAX), interval)

    def refresh(self, refresh_token: str) -> Tokens:
        given = self._post("token_endpoint", {"grant_type": "refresh_token", "refresh_token": refresh_token})
        if "error" in given:
            raise self._refused(given)
        return self._tokens(given)

    def _poll(self, device_code: str, lifetime: float, interval: float) -> Tokens:
        asked = {"grant_type": DEVICE_GRANT, "device_code": device_code}
        deadline = monotonic() + lifetime
        unreachable: Unreachable | None = None
        while monotonic() + interval < deadline:
            sleep(interval)
            try:
                given = self._post("token_endpoint", asked)
            except Unreachable as error:
                # RFC 8628 asks for fewer requests while a provider does not answer.
                unreachable, interval = error, interval * 2
                continue
            unreachable = None
            match given.get("error"):
                case None:
                    return self._tokens(given)
                case "authorization_pending":
                    pass
                case "slow_down":
                    interval += SLOW_DOWN_SECONDS
                case "expired_token":
                    break
                case "access_denied":
                    raise SignInFailed("The sign-in was denied at the provider.", _AGAIN)
                case _:
                    raise self._refused(given)
        raise unreachable or SignInFailed("The code expired before it was confirmed.", _AGAIN)

    def _discover(self) -> dict[str, Any]:
        address = f"{self._issuer}/.well-known/openid-configuration"
        found = self._exchange("GET", address)
        # The metadata of another issuer would send the code, and later the token, somewhere else.
        if str(found.get("issuer", "")).rstrip("/") != self._issuer:
            raise NotConfigured(f"{address} does not describe the issuer {self._issuer}.", "Check --issuer.")
        return found

    def _default_scope(self) -> str:
        supported = self._metadata.get("scopes_supported")
        has_refresh = isinstance(supported, list) and "offline_access" in supported
        return "openid offline_access" if has_refresh else "openid"

    def _post(self, endpoint: str, form: dict[str, str]) -> dict[str, Any]:
        address = self._metadata.get(endpoint)
        if not isinstance(address, str):
            raise NotConfigured(
                f"The provider {self._issuer} has no {endpoint}, so nobody can sign in with a code.",
                "Enable its device flow, or set a token in OPENBELL_ACCESS_TOKEN.",
            )
        return self._exchange("POST", _checked(address, f"The provider's {endpoint}"), form | self._common)

    def _exchange(self, method: str, address: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        # A provider on this machine cannot be reached through the proxy of HTTP_PROXY.
        is_local = is_loopback(urlsplit(address).hostname or "")
        try:
            with httpx.Client(timeout=REQUEST_SECONDS, trust_env=not is_local) as http:
                response = http.request(method, address, data=form, headers={"accept": "application/json"})
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise self._unreachable(address, str(error) or type(error).__name__) from error
        if response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise self._unreachable(address, f"status {response.status_code}")
        try:
            found = response.json()
        except ValueError:
            found = None
        if not isinstance(found, dict) or (not response.is_success and "error" not in found):
            raise self._unreadable()
        return found

    def _tokens(self, given: dict[str, Any]) -> Tokens:
        token, expires_in, refresh = (given.get(key) for key in ("access_token", "expires_in", "refresh_token"))
        if not isinstance(token, str) or str(given.get("token_type", "")).lower() != "bearer":
            raise self._unreadable()
        try:
            lifetime = None if expires_in is None else min(int(expires_in), LIFETIME_SECONDS_MAX)
            return Tokens(token, lifetime, str(refresh) if refresh else None)
        except (ValueError, TypeError, OverflowError):
            raise self._unreadable() from None

    def _refused(self, given: dict[str, Any]) -> SignInFailed:
        why = given.get("error_description") or ""
        return SignInFailed(
            f"The provider refused the sign-in: {given['error']}{f' ({why})' if why else ''}.",
            f"Check that it has a client {self._client_id} that may use the device flow, and check --scope.",
        )

    def _unreadable(self) -> NotConfigured:
        return NotConfigured(
            f"The provider {self._issuer} sent a reply that is not one of OpenID.",
            "Check --issuer: it must be the address before /.well-known/openid-configuration.",
        )

    def _unreachable(self, address: str, why: str) -> Unreachable:
        error = Unreachable(f"The provider did not answer: {address}: {why}")
        error.remedy = "Check --issuer and your network, then try again."
        return error


def _checked(address: str, what: str) -> str:
    """Plain http is accepted on this machine only, because codes and tokens would be readable on the way."""
    parts = urlsplit(address)
    if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))):
        return address
    raise NotConfigured(f"{what} is not an https address: {address}", "Check --issuer.")
