"""Desk commands in the database."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from openbell_server.application.controls.ports.rules import CountedAccept, Counting
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.orders.desk_commands import (
    ClosingFacts,
    DeskCommand,
    DeskReason,
    DeskScope,
    End,
    OrderOutcome,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDeskCommand:
    id: UUID
    account_id: AccountId
    principal: Principal
    scope: DeskScope
    idempotency_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskOrder:
    """An order of a desk command."""

    intent_id: IntentId
    symbol: Symbol
    outcome: OrderOutcome
    filled_quantity: Decimal
    # The code of the reason why the last cancel had no effect; None if it had, or has no outcome yet.
    cancel_reason: str | None
    cancels: int
    updated_at: datetime


class DeskCommandStore(Protocol):
    async def accept(self, command: NewDeskCommand) -> tuple[DeskCommand, bool]:
        """Record the command with every open order in its scope under the account's lock; True if it was replayed.

        Raises Problem if the key was used for another command, or there is no such API key.
        """

    async def find(
        self, organization_id: OrganizationId, account_id: AccountId, desk_command_id: UUID
    ) -> DeskCommand | None: ...

    async def outcomes(
        self, organization_id: OrganizationId, account_id: AccountId, command: DeskCommand
    ) -> dict[OrderOutcome, int]:
        """How many orders of the command have each outcome."""

    async def list_commands(
        self, organization_id: OrganizationId, account_id: AccountId, before: int | None, limit: int
    ) -> list[tuple[int, DeskCommand]]:
        """Commands with their numbers, the newest first, beginning before a number."""

    async def list_orders(
        self, organization_id: OrganizationId, account_id: AccountId, command: DeskCommand, after: int, limit: int
    ) -> list[tuple[int, DeskOrder]]:
        """Orders of a command by their place, beginning after a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderToCancel:
    desk_command_id: UUID
    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    # Cancels that the command submitted so far.
    cancels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A CLOSE_POSITION that has not ended."""

    id: UUID
    symbol: Symbol
    principal: Principal
    facts: ClosingFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPosition:
    """A position in a symbol, read under the account's lock."""

    # None: it is not known.
    quantity: Decimal | None
    # Open orders of the symbol, whoever placed them.
    open_orders: int
    now: datetime


class PlacingTransaction(Protocol):
    """One transaction under the account's lock that places a closing order, or ends its command."""

    @property
    def counted(self) -> CountedAccept: ...

    @property
    def held(self) -> HeldPosition: ...

    async def end(self, end: End, receipt_id: ReceiptId | None = None) -> None: ...


class DeskWorkStore(Protocol):
    """What executors need. Lists are bounded; the next sweep finds the rest."""

    async def accounts_with_desk_commands_across_organizations(self, slots: Collection[int]) -> list[BrokerAccount]:
        """Accounts of these slots with a command that has not ended."""

    async def orders_to_cancel(self, account: BrokerAccount) -> list[OrderToCancel]:
        """Orders of such commands without a pending cancel, those with the fewest cancels first."""

    async def end_cancels(self, account: BrokerAccount) -> None:
        """End each CANCEL_ALL whose orders are all closed."""

    async def closings(self, account: BrokerAccount) -> list[Closing]: ...

    async def end(self, account: BrokerAccount, desk_command_id: UUID, end: End) -> None: ...

    async def wait(self, account: BrokerAccount, desk_command_id: UUID, reason: DeskReason | None) -> None:
        """Record why the closing order is not placed yet."""

    async def position(self, account: BrokerAccount, symbol: Symbol) -> HeldPosition:
        """Without the account's lock."""

    def placing(
        self, account: TradingAccount, question: Counting, closing: Closing
    ) -> AbstractAsyncContextManager[PlacingTransaction]: ...
