"""What use cases need to know a caller by an access token."""

from typing import Protocol

from openbell_server.domain.access_tokens import TokenClaims


class AccessTokens(Protocol):
    """Verifies tokens."""

    async def verify(self, token: str) -> TokenClaims | None:
        """What the token says about its caller, or None for every way in which a token can be wrong."""
        ...
