"""Desk commands: cancel many orders, or close a position, as one command."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import uuid4

from openbell.connection import Connection
from openbell.models import Record
from openbell.requests import Request, change, without_none

# The command has ended in these states.
ENDED: Final = ("DONE", "FAILED")


class DeskCommand(Record, frozen=True, kw_only=True):
    """A desk command and how far it is: status WORKING, IN_DOUBT, DONE or FAILED."""

    id: str
    account_id: str
    type: str
    status: str
    # Orders in its scope when it was accepted, and open orders there that were placed elsewhere, which it leaves.
    orders: int
    external_orders: int
    principal_type: str
    principal_id: str
    created_at: datetime
    ended_at: datetime | None = None
    symbol: str | None = None
    api_key_id: str | None = None
    # Orders per outcome; only of a command that was read alone.
    outcomes: dict[str, int] | None = None
    # Why a position is not closed yet, or was not closed.
    reason: str | None = None
    detail: str | None = None
    receipt_id: str | None = None
    closing_intent_id: str | None = None
    # Whether an earlier request with the same idempotency key recorded it.
    replayed: bool = False

    @property
    def is_ended(self) -> bool:
        return self.status in ENDED


class DeskOrder(Record, frozen=True, kw_only=True):
    """An order of a desk command: CANCELING, CANCEL_FAILED, UNKNOWN, OPEN, or how it ended, such as CANCELED."""

    intent_id: str
    symbol: str
    outcome: str
    filled_quantity: Decimal
    cancels: int
    updated_at: datetime
    cancel_reason: str | None = None


def desk_command_request(
    connection: Connection, account_id: str | None, idempotency_key: str | None, body: Mapping[str, Any]
) -> Request:
    request = change("POST", connection.path(account_id, "desk-commands"), without_none(body))
    request.headers["idempotency-key"] = uuid4().hex if idempotency_key is None else idempotency_key
    return request
