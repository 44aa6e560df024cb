"""Capabilities, credentials and address of the paper broker."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from openbell_server.application.ports.broker import BrokerSession, CredentialField, CredentialForm
from openbell_server.brokers.paper.profiles import PROFILES, Profile
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import Symbol, canonical_symbol


class PaperBroker:
    """The built-in broker with one of its profiles."""

    # Optional, so that key rotation can be tested with the paper broker too.
    credentials: CredentialForm | None = CredentialForm(
        kind="paper_key",
        fields=(
            CredentialField(name="key_id", title="Key id", secret=False),
            CredentialField(name="secret", title="Secret"),
        ),
        required=False,
    )

    # Every installation runs its own paper broker.
    addresses: Mapping[Environment, str] = MappingProxyType({})

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.name = profile.name
        self.capabilities = profile.capabilities

    def canonical_symbol(self, text: str) -> Symbol | None:
        return canonical_symbol(text)

    async def open_session(self, addresses: Mapping[Environment, str]) -> BrokerSession:
        """The paper broker has one address for both environments."""
        return PaperSession(addresses[Environment.PAPER], self._profile)


PAPER_BROKERS: Final = {name: PaperBroker(profile) for name, profile in PROFILES.items()}
