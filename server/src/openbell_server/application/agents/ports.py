"""Keys of agents in the database."""

from collections.abc import Mapping
from typing import Protocol

from openbell_server.domain.access.api_keys import ApiKeyRecord, NewApiKey, PresentedKey
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.rules import RuleTerms


class AgentKeyStore(Protocol):
    async def add_with_rules(
        self, principal: Principal, presented: PresentedKey, new: NewApiKey, rules: Mapping[str, RuleTerms], reason: str
    ) -> ApiKeyRecord:
        """Store a key's hash and its rules by code, in one transaction."""
