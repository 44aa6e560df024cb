"""The accept step: records commands, or refuses them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.identifiers import ActionId, IntentId, ReceiptId
from openbell_server.domain.orders.intents import Command


class AcceptStatus(StrEnum):
    """The result of the accept step for one command of a batch."""

    ACCEPTED = "ACCEPTED"
    REPLAYED = "REPLAYED"
    CANCEL_PENDING = "CANCEL_PENDING"
    SAME_KEY_IN_SET = "SAME_KEY_IN_SET"
    DEFERRED = "DEFERRED"
    STALE_CONTROLS = "STALE_CONTROLS"
    CLOCK_SKEW = "CLOCK_SKEW"
    NOT_FOUND = "NOT_FOUND"
    NOT_OWN = "NOT_OWN"
    ORDER_TERMINAL = "ORDER_TERMINAL"
    ORDER_UNKNOWN = "ORDER_UNKNOWN"
    IMMUTABLE_FIELD = "IMMUTABLE_FIELD"
    QUANTITY_NOT_ABOVE_FILLED = "QUANTITY_NOT_ABOVE_FILLED"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A command with everything that is written if it is accepted."""

    action_id: ActionId
    intent_id: IntentId
    receipt_id: ReceiptId
    account: TradingAccount
    principal: Principal
    command: Command
    command_hash: bytes
    idempotency_key: str | None
    receipt: Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    status: AcceptStatus
    intent_id: IntentId
    seq: int | None
    number: int | None
    command_hash: bytes | None
    created_at: datetime


class AcceptStore(Protocol):
    async def accept_across_organizations(self, submissions: Sequence[Submission]) -> list[Acceptance]:
        """Run the accept step on a batch; the results have the order of the submissions."""
