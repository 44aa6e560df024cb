"""What the paper broker can do, and how to reach it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from openbell_server.application.ports.broker import BrokerSession, CredentialField, CredentialForm
from openbell_server.brokers.paper.profiles import PROFILES, Profile
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.accounts import Environment
from openbell_server.domain.identifiers import Symbol, canonical_symbol


class PaperBroker:
    """The built-in broker, as one of the kinds that it can be."""

    # An account may do without; one that has a key trades with it, so that changing keys can be tried out.
    credentials: CredentialForm | None = CredentialForm(
        kind="paper_key",
        fields=(
            CredentialField(name="key_id", title="Key id", secret=False),
            CredentialField(name="secret", title="Secret"),
        ),
        required=False,
    )

    # Each installation has its own.
    addresses: Mapping[Environment, str] = MappingProxyType({})

    def __init__(self, profile: Profile) -> None:
        """Accounts name it by its profile."""
        self._profile = profile
        self.name = profile.name
        self.capabilities = profile.capabilities

    def canonical_symbol(self, text: str) -> Symbol | None:
        """The one spelling of a symbol, or None."""
        return canonical_symbol(text)

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        """A session with the paper broker at this http address, which is the same in both environments."""
        return PaperSession(addresses[Environment.PAPER], self._profile)


PAPER_BROKERS: Final = {name: PaperBroker(profile) for name, profile in PROFILES.items()}
