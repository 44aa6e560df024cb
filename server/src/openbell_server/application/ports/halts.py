"""What use cases need to enact halts, and to report of them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.domain.halts import HaltReport, Switch
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltedOrder:
    """An order that works, and the switch that wants it cancelled."""

    intent_id: IntentId
    symbol: Symbol
    switch: Switch
    seen_at: datetime
    # How often that was asked for already, by whichever switch.
    cancels: int


class HaltStore(Protocol):
    """Halts on the record of accounts. What crosses organizations is bounded, and the next sweep finds the rest."""

    async def to_record_across_organizations(self, slots: Collection[int]) -> list[tuple[BrokerAccount, Switch]]:
        """Switches that cover accounts of these slots and are not on their record."""

    async def to_lift_across_organizations(self, slots: Collection[int]) -> list[tuple[BrokerAccount, Switch]]:
        """Switches on record that are not in force any more."""

    async def record(self, account: BrokerAccount, switch: Switch) -> bool:
        """Put it on record under the account's lock, and into the account's log; False if that was done, or lifted."""

    async def lift(self, account: BrokerAccount, switch: Switch) -> bool:
        """The same for its end."""

    async def to_cancel_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts that may have orders which a halt ends."""

    async def orders_to_cancel(self, account: BrokerAccount) -> list[HaltedOrder]:
        """The account's that wait for no cancel now, the oldest first."""

    async def to_compare_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts with a halt and nothing open, whose broker's list was not read since."""

    async def note_comparison(self, account: BrokerAccount) -> bool:
        """Whether it was read by now."""


class HaltReportStore(Protocol):
    """Reads what a halt came to."""

    async def halt_report(self, organization_id: OrganizationId, account_id: AccountId) -> HaltReport:
        """Of an account that the organization has."""
