"""What use cases need to keep the controls of symbols, and to explain refusals."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.controls import ManualControl, Recorded, SymbolControls, TimeControl
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.principals import Principal
from openbell_server.domain.receipts import Receipt


@dataclass(frozen=True, slots=True)
class ControlsNow:
    """The controls of a symbol, the epoch of the account that they belong to, and the database's clock."""

    controls: SymbolControls
    account_epoch: int
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingOrder:
    """An order that has worked for longer than a control allows."""

    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    control_version: int
    max_resting_millis: int
    rested_millis: int
    # How many cancels the platform has asked for by itself.
    cancels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingOrder:
    """An order of a symbol whose control has orders cancelled when it closes."""

    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    control: Recorded[TimeControl]
    # How many cancels the platform has asked for because of that, and when the last one.
    cancels: int
    cancelled_at: datetime | None


class RestingStore(Protocol):
    """Finds orders that may work no longer."""

    async def accounts_resting_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId]]:
        """Accounts of these slots that may have such an order."""

    async def resting_too_long(self, organization_id: OrganizationId, account_id: AccountId) -> list[RestingOrder]:
        """The account's, the oldest first: only those that the broker surely has and that wait for no cancel."""

    async def accounts_closing_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId]]:
        """Accounts of these slots with such a control and any order."""

    async def orders_to_close(self, organization_id: OrganizationId, account_id: AccountId) -> list[WorkingOrder]:
        """The account's, the oldest first, that the broker surely has and that wait for no cancel."""


class ControlStore(Protocol):
    """The controls of symbols. A change is made under the account's lock and begins a new epoch of the account."""

    async def find_controls(
        self, organization_id: OrganizationId, account_id: AccountId, symbol: Symbol
    ) -> ControlsNow | None:
        """The controls of a symbol, all read at one moment; None if the organization has no such account."""

    async def set_manual(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol,
        control: ManualControl,
        principal: Principal,
    ) -> Recorded[ManualControl]:
        """Create or replace the manual control."""

    async def change_time(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol,
        change: Callable[[TimeControl], TimeControl],
        principal: Principal,
    ) -> Recorded[TimeControl]:
        """Create or change the time control; change gets what is there, and may refuse."""

    async def keep_refusal(
        self, organization_id: OrganizationId, account_id: AccountId, receipt_id: ReceiptId, receipt: Receipt
    ) -> None:
        """Store the receipt of a command that is not recorded."""
