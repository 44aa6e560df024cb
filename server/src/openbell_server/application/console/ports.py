"""What the console needs from outside: a store of sessions, the OpenID provider, and encryption."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from openbell_server.domain.errors import OpenbellError


class SignInRefused(OpenbellError):
    """The provider refused a code or a refresh token, or its answer is not valid. `reason` has no text of others."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ProviderAway(OpenbellError):
    """The provider did not answer; the same request may pass later."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A user's tokens as the provider issued them; it may issue no refresh token."""

    access: str = field(repr=False)
    refresh: str | None = field(repr=False)
    # How long the access token is valid from now on, and was from its issue on.
    seconds: float
    lifetime_seconds: float


@dataclass(frozen=True, slots=True)
class SignedIn:
    issuer: str
    subject: str
    tokens: Tokens


class OpenIdProvider(Protocol):
    """Every method raises ProviderAway if the provider does not answer."""

    async def sign_in_address(
        self, *, redirect: str, state: str, nonce: str, challenge: str, login_hint: str | None
    ) -> str:
        """Where the browser goes to sign in."""

    async def redeem(self, code: str, *, redirect: str, verifier: str, nonce: str) -> SignedIn:
        """Raises SignInRefused."""

    async def refresh(self, refresh_token: str) -> Tokens:
        """Raises SignInRefused."""


class Sealer(Protocol):
    """Encrypts with the console's key. What was sealed for one purpose does not open for another."""

    def seal(self, text: bytes, purpose: bytes) -> bytes: ...

    def open(self, sealed: bytes, purpose: bytes) -> bytes | None:
        """None if it was changed, or sealed with another key or for another purpose."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    issuer: str
    subject: str
    sealed_tokens: bytes
    refreshes: int
    expires_at: datetime
    token_seconds: float
    unused_seconds: float


class SessionStore(Protocol):
    """Sessions by the hash of their cookie. Of ended sessions it reads nothing."""

    async def open(
        self, session_hash: bytes, issuer: str, subject: str, sealed_tokens: bytes, token_seconds: float, seconds: float
    ) -> None: ...

    async def read(self, session_hash: bytes) -> SessionRow | None: ...

    async def live_among(self, session_hashes: Collection[bytes]) -> frozenset[bytes]: ...

    async def note_use(self, session_hash: bytes) -> None: ...

    async def claim_refresh(self, session_hash: bytes, refreshes: int, seconds: float) -> bool:
        """False if another process renews the tokens now, or has done so."""

    async def save_tokens(
        self, session_hash: bytes, refreshes: int, sealed_tokens: bytes, token_seconds: float
    ) -> None: ...

    async def end(self, session_hash: bytes) -> None: ...

    async def end_all_of_user(self, session_hash: bytes) -> None:
        """End every session of the user of this one."""

    async def prune(self) -> int:
        """Delete a limited number of ended sessions; how many it deleted."""
