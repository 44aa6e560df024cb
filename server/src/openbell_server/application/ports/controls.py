"""What use cases need to keep the controls of symbols, and to explain refusals."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from openbell_server.domain.controls import ManualControl, Recorded, SymbolControls, TimeControl
from openbell_server.domain.identifiers import AccountId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.principals import Principal
from openbell_server.domain.receipts import Receipt


@dataclass(frozen=True, slots=True)
class ControlsNow:
    """The controls of a symbol, the epoch of the account that they belong to, and the database's clock."""

    controls: SymbolControls
    account_epoch: int
    now: datetime


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
