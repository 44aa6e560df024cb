"""Halts of accounts in the database."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.controls.halts import HaltReport, Switch
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltedOrder:
    intent_id: IntentId
    symbol: Symbol
    switch: Switch
    seen_at: datetime
    # Cancels submitted so far, by any switch.
    cancels: int


class HaltStore(Protocol):
    """Halts recorded on accounts. Lists across organizations are bounded; the next sweep finds the rest."""

    async def to_record_across_organizations(self, slots: Collection[int]) -> list[tuple[BrokerAccount, Switch]]:
        """Switches that cover accounts of these slots and are not recorded on them."""

    async def to_lift_across_organizations(self, slots: Collection[int]) -> list[tuple[BrokerAccount, Switch]]:
        """Recorded switches that are no longer in force."""

    async def record(self, account: BrokerAccount, switch: Switch) -> bool:
        """Record it and append an event under the account's lock; False if it was recorded or lifted before."""

    async def lift(self, account: BrokerAccount, switch: Switch) -> bool:
        """Record the end; False if that was done before."""

    async def to_cancel_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts that may have orders to cancel because of a halt."""

    async def orders_to_cancel(self, account: BrokerAccount) -> list[HaltedOrder]:
        """Orders of the account without a pending cancel, the oldest first."""

    async def to_compare_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts with a halt and no open order that were not compared with their broker since."""

    async def note_comparison(self, account: BrokerAccount) -> bool:
        """Record the comparison; False if the account was not compared yet."""


class HaltReportStore(Protocol):
    async def list_reports(
        self, organization_id: OrganizationId, account_id: AccountId, before: int | None, limit: int
    ) -> list[tuple[int, HaltReport]]:
        """Reports of every halt of the account with their numbers, the newest first, beginning before a number."""
