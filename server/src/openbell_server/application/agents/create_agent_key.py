"""Create a key for an agent together with the rules that limit it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from openbell_server.application.agents.ports import AgentKeyStore
from openbell_server.application.controls.ports.rules import OrganizationStanding
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.api_keys import ApiKeyRecord, NewApiKey
from openbell_server.domain.access.authorization import Operation, require_entitlement
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.agents.budget import Budget
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import OrganizationId

REASON: Final = "budget of an agent key"


@dataclass(frozen=True, slots=True)
class CreateAgentKey:
    store: AgentKeyStore
    find_standing: Callable[[OrganizationId], Awaitable[OrganizationStanding | None]]
    entropy: Callable[[int], bytes]

    async def __call__(self, principal: Principal, new: NewApiKey, budget: Budget) -> tuple[str, ApiKeyRecord]:
        """The key's text and record; the key can be used only once its rules are in force."""
        if new.expires_at is None:
            raise InvalidCommand("expires_at", "must be given for an agent key")
        standing = await self.find_standing(principal.organization_id)
        entitlements = frozenset[str]() if standing is None else standing.entitlements
        require_entitlement(Operation.EDIT_ORGANIZATION_CONTROLS, entitlements)
        rules = budget.rules()
        text, presented = api_keys.mint(new.environment, self.entropy(api_keys.ENTROPY_BYTES))
        return text, await self.store.add_with_rules(principal, presented, new, rules, REASON)
