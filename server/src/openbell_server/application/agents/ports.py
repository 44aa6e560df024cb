"""Keys of agents in the database."""

from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from openbell_server.domain.access.api_keys import ApiKeyRecord, NewApiKey, PresentedKey
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.agents.worst_case import DayKey
from openbell_server.domain.controls.kinds.day_values import DayValue
from openbell_server.domain.controls.rules import Rule, RuleTerms
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.money.losses import LossMark


class AgentKeyStore(Protocol):
    async def add_with_rules(
        self, principal: Principal, presented: PresentedKey, new: NewApiKey, rules: Mapping[str, RuleTerms], reason: str
    ) -> ApiKeyRecord:
        """Store a key's hash and its rules by code, in one transaction."""


class SpentStore(Protocol):
    async def accepted(
        self, organization_id: OrganizationId, rules: Collection[tuple[Rule, DayValue]], now: datetime
    ) -> dict[DayKey, Decimal]:
        """What each rule of a day's value has accepted on its present day."""

    async def losses(
        self, organization_id: OrganizationId, account_id: AccountId
    ) -> dict[tuple[str, str], LossMark]: ...
