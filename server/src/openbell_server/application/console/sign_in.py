"""Signs a user in by the authorization code flow with PKCE (RFC 7636), state and nonce.

What a sign-in needs until the browser returns is encrypted in a cookie, so that a stranger who begins sign-ins leaves
nothing behind here.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from openbell_server.application.console.ports import OpenIdProvider, Sealer, SignInRefused
from openbell_server.application.console.sessions import ConsoleSessions
from openbell_server.domain.access.console_sessions import COOKIE_BYTES, local_path

PENDING_SECONDS: Final = 600
CODE_LENGTH_MAX: Final = 4096
LOGIN_HINT_LENGTH_MAX: Final = 255
_PURPOSE: Final = b"pending sign-in"


@dataclass(frozen=True, slots=True)
class Begun:
    """Where the browser goes, and the pending sign-in for its cookie."""

    address: str
    pending: bytes


@dataclass(frozen=True, slots=True)
class SignIn:
    provider: OpenIdProvider
    sealer: Sealer
    sessions: ConsoleSessions
    # The address to which the provider sends the browser back.
    redirect: str
    random_bytes: Callable[[int], bytes]
    # Seconds of the wall clock; only to limit how long a pending sign-in is valid.
    now: Callable[[], float]

    async def begin(self, then: str | None, login_hint: str | None) -> Begun:
        state, nonce, verifier = (_text(self.random_bytes(32)) for _ in range(3))
        challenge = _text(hashlib.sha256(verifier.encode()).digest())
        hint = login_hint if login_hint and len(login_hint) <= LOGIN_HINT_LENGTH_MAX else None
        address = await self.provider.sign_in_address(
            redirect=self.redirect, state=state, nonce=nonce, challenge=challenge, login_hint=hint
        )
        text = json.dumps([state, nonce, verifier, local_path(then), self.now() + PENDING_SECONDS])
        return Begun(address, self.sealer.seal(text.encode(), _PURPOSE))

    async def finish(self, pending: bytes, state: str, code: str, earlier: bytes | None) -> tuple[bytes, str]:
        """Open a session and end the earlier one; the new cookie and where to go.

        Raises SignInRefused, or ProviderAway.
        """
        text = self.sealer.open(pending, _PURPOSE)
        if text is None:
            raise SignInRefused("not_begun_here")
        begun_state, nonce, verifier, then, until = json.loads(text)
        if not hmac.compare_digest(begun_state.encode(), state.encode()):
            raise SignInRefused("wrong_state")
        if self.now() > until:
            raise SignInRefused("too_late")
        if not 0 < len(code) <= CODE_LENGTH_MAX:
            raise SignInRefused("no_code")
        signed_in = await self.provider.redeem(code, redirect=self.redirect, verifier=verifier, nonce=nonce)
        cookie = self.random_bytes(COOKIE_BYTES)
        await self.sessions.open(cookie, signed_in)
        if earlier is not None:
            await self.sessions.end(earlier)
        return cookie, then


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
