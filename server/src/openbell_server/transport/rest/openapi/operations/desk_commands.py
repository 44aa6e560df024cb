"""OpenAPI rows of desk commands."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.orders.desk_commands import DeskCommandType, DeskStatus, OrderOutcome
from openbell_server.transport.rest.desk.routes import (
    DeskCommandBody,
    DeskCommandPageBody,
    DeskOrderBody,
    DeskOrderPageBody,
    SubmitDeskCommandBody,
)
from openbell_server.transport.rest.openapi.operation import IDEMPOTENCY_KEY, LIMIT, NEXT_CURSOR, Described, location

_PATH: Final = "/v1/accounts/{account_id}/desk-commands"
_INTENT_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000003")
_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_ACCEPTED: Final = DeskCommandBody(
    id=UUID("01981d3c-7a00-7000-8000-00000000000a"),
    account_id=UUID("01981d3c-7a00-7000-8000-000000000002"),
    type=DeskCommandType.CANCEL_ALL,
    status=DeskStatus.WORKING,
    orders=3,
    external_orders=0,
    principal_type="API_KEY",
    principal_id="01981d3c-7a00-7000-8000-000000000007",
    created_at=_NOON,
    ended_at=None,
    symbol="AAPL",
)
_SHOWN: Final = DeskCommandBody(
    id=_ACCEPTED.id,
    account_id=_ACCEPTED.account_id,
    type=DeskCommandType.CANCEL_ALL,
    status=DeskStatus.IN_DOUBT,
    orders=3,
    external_orders=0,
    principal_type=_ACCEPTED.principal_type,
    principal_id=_ACCEPTED.principal_id,
    created_at=_NOON,
    ended_at=None,
    symbol="AAPL",
    outcomes={"UNKNOWN": 1, "FILLED": 1, "CANCELED": 1},
)
_ORDER: Final = DeskOrderBody(_INTENT_ID, "AAPL", OrderOutcome.CANCEL_FAILED, "0", 2, _NOON, "BROKER_REFUSED")

DESK_OPERATIONS: Final = (
    Described(
        method="POST",
        path=_PATH,
        operation_id="submitDeskCommand",
        summary="Cancel all orders, or close a position",
        description="CANCEL_ALL cancels every order of the account that is open now, queued and unknown ones included; "
        "with symbol only those of the symbol, with api_key_id only those that this key created. CLOSE_POSITION "
        "cancels the open orders of the symbol and then places one market order for exactly the position that is "
        "left. Once you receive 202 the command is durable, and its set of orders is fixed. Orders that were placed "
        "elsewhere are not cancelled. A key with own_orders_only cancels only its own orders and cannot close a "
        "position. Nothing disabled and no control stops a cancel; the closing order is checked like any other.",
        operation=Operation.SUBMIT_DESK_COMMAND,
        status=202,
        body=SubmitDeskCommandBody,
        body_examples={
            "cancel all": {"type": "CANCEL_ALL"},
            "cancel orders of a symbol": {"type": "CANCEL_ALL", "symbol": "AAPL"},
            "close a position": {"type": "CLOSE_POSITION", "symbol": "AAPL"},
        },
        answer_example=_ACCEPTED,
        answer_headers={
            "Location": location("The path of the command."),
            "Idempotency-Replayed": {
                "description": "Present with the value true if an earlier request with this key recorded this command.",
                "schema": {"const": "true"},
            },
        },
        parameters=(IDEMPOTENCY_KEY,),
        codes=("idempotency_key_reused",),
    ),
    Described(
        path=_PATH,
        operation_id="listDeskCommands",
        summary="List desk commands",
        description="The account's desk commands, the newest first, without the number of orders per outcome.",
        operation=Operation.READ_INTENTS,
        answer_example=DeskCommandPageBody([_ACCEPTED], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(NEXT_CURSOR, LIMIT),
    ),
    Described(
        path=f"{_PATH}/{{desk_command_id}}",
        operation_id="showDeskCommand",
        summary="Show a desk command",
        description="status is WORKING, IN_DOUBT while the outcome of at least one order is unknown, DONE, or "
        "FAILED if the position was not closed; reason and detail show why. outcomes counts its orders per outcome.",
        operation=Operation.READ_INTENTS,
        answer_example=_SHOWN,
    ),
    Described(
        path=f"{_PATH}/{{desk_command_id}}/orders",
        operation_id="listDeskOrders",
        summary="List the orders of a desk command",
        description="Every order of the command with its outcome, the oldest first. Of an open order the outcome is "
        "CANCELING, CANCEL_FAILED if the last cancel had no effect (the next one follows), UNKNOWN, or OPEN if the "
        "command has ended; of a closed one it is how the order ended, such as CANCELED or FILLED.",
        operation=Operation.READ_INTENTS,
        answer_example=DeskOrderPageBody([_ORDER], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(NEXT_CURSOR, LIMIT),
    ),
)
