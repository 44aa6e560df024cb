"""Controls of symbols in the database, and the orders that they cancel."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.symbol_controls import ManualControl, Recorded, SymbolControls, TimeControl
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, ReceiptId, Symbol


@dataclass(frozen=True, slots=True)
class ControlsNow:
    """The controls of a symbol at an epoch of the account, and the database's clock."""

    controls: SymbolControls
    account_epoch: int
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RestingOrder:
    """An order that rests longer than a control allows."""

    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    control_version: int
    max_resting_millis: int
    rested_millis: int
    # Cancels that the control submitted so far.
    cancels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingOrder:
    """An order of a symbol whose control cancels orders at close."""

    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    control: Recorded[TimeControl]
    # Cancels that the control submitted so far, and the time of the last one.
    cancels: int
    cancelled_at: datetime | None


class RestingStore(Protocol):
    """Finds orders that a control must cancel."""

    async def accounts_resting_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId]]:
        """Accounts of these slots that may have an order resting too long."""

    async def resting_too_long(self, organization_id: OrganizationId, account_id: AccountId) -> list[RestingOrder]:
        """The oldest first; only orders that the broker confirmed and that have no pending cancel."""

    async def accounts_closing_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId]]:
        """Accounts of these slots that have orders and a control that cancels at close."""

    async def orders_to_close(self, organization_id: OrganizationId, account_id: AccountId) -> list[WorkingOrder]:
        """The oldest first; only orders that the broker confirmed and that have no pending cancel."""


class ControlStore(Protocol):
    """A change is made under the account's lock and starts a new epoch of the account."""

    async def find_controls(
        self, organization_id: OrganizationId, account_id: AccountId, symbol: Symbol
    ) -> ControlsNow | None:
        """All read in one statement; None if the organization has no such account."""

    async def set_manual(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol,
        control: ManualControl,
        principal: Principal,
    ) -> Recorded[ManualControl]: ...

    async def change_time(
        self,
        organization_id: OrganizationId,
        account_id: AccountId,
        symbol: Symbol,
        change: Callable[[TimeControl], TimeControl],
        principal: Principal,
        named: Collection[str] = (),
    ) -> Recorded[TimeControl]:
        """Create or change the time control; `change` receives the current one and may raise Problem.

        `named`: fields that the principal sets, also to the value that they have.
        """

    async def keep_refusal(
        self, organization_id: OrganizationId, account_id: AccountId, receipt_id: ReceiptId, receipt: Receipt
    ) -> None:
        """Store the receipt of a refused command."""
