"""OpenAPI rows of receipts."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.facts import Gate
from openbell_server.domain.controls.findings import Verdict
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, TimeInForce
from openbell_server.transport.rest.errors import ReceiptBody
from openbell_server.transport.rest.intents.evaluations import EvaluateBody, EvaluationBody
from openbell_server.transport.rest.intents.receipts import (
    ChainedActionBody,
    ChainHeadsBody,
    ChainPageBody,
    ReceiptPageBody,
    StoredReceiptBody,
)
from openbell_server.transport.rest.openapi.operation import LIMIT, NEXT_CURSOR, OF_INTENT, Described, Parameter

_ACCOUNT: Final = "/v1/accounts/{account_id}"
_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_ACCOUNT_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000002")
_ORGANIZATION_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000001")
_RECEIPT_ID: Final = UUID("01981d3c-7a00-7000-8000-000000000005")
_BODY: Final[dict[str, object]] = {
    "version": 2,
    "gate": "ACCEPT",
    "verdict": "REFUSED",
    "organization_epoch": 1,
    "account_epoch": 4,
    "evaluated_at": "2026-01-05T12:00:00+00:00",
    "command": {
        "action_type": "CREATE",
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "MARKET",
        "quantity": "5000",
        "time_in_force": "DAY",
    },
    "rules": [
        {
            "code": "QTY_MAX",
            "scope": "ACCOUNT",
            "mode": "HARD",
            "verdict": "REFUSED",
            "comparison": "AT_MOST",
            "limit": "1000",
            "observed": "5000",
            "control_version": 3,
            "would_pass": "a quantity of at most 1000",
            "headroom": "-4000",
        }
    ],
}
_SHOWN: Final = msgspec.convert(_BODY, ReceiptBody)
_TEXT: Final = json.dumps(_BODY, separators=(",", ":"))
_HASH: Final = hashlib.sha256(_TEXT.encode()).hexdigest()
_RECEIPT: Final = StoredReceiptBody(
    id=_RECEIPT_ID,
    account_id=_ACCOUNT_ID,
    verdict=Verdict.REFUSED,
    gate=Gate.ACCEPT,
    created_at=_NOON,
    hash=_HASH,
    receipt=_SHOWN,
    text=_TEXT,
    refusal_no=1,
)
_CURSOR: Final = "AAAAAAAAACpTb3B1YmJsaWNfa2V"
_PAGE: Final = ReceiptPageBody([_RECEIPT], None, _CURSOR)
_NOTHING: Final = bytes(32)
_ACCEPTED: Final = json.dumps(
    {"version": 2, "gate": "ACCEPT", "verdict": "PASSED", "organization_epoch": 1, "account_epoch": 1, "rules": []},
    separators=(",", ":"),
)
_CHAINED: Final = ChainedActionBody(
    number=1,
    chained_from=1,
    id=UUID("01981d3c-7a00-7000-8000-000000000004"),
    intent_id=UUID("01981d3c-7a00-7000-8000-000000000003"),
    account_id=_ACCOUNT_ID,
    organization_id=_ORGANIZATION_ID,
    seq=1,
    action_type=ActionType.CREATE,
    symbol="AAPL",
    order_side=OrderSide.BUY,
    order_type=OrderType.LIMIT,
    route_strategy=RouteStrategy.SMART,
    quantity="10",
    time_in_force=TimeInForce.DAY,
    principal_type="API_KEY",
    principal_id="01981d3c-7a00-7000-8000-000000000007",
    receipt_id=_RECEIPT_ID,
    created_at=_NOON,
    hash="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    receipt_hash=hashlib.sha256(_ACCEPTED.encode()).hexdigest(),
    receipt_text=_ACCEPTED,
    limit_price="187.50",
)
_HEADS: Final = ChainHeadsBody(
    account_id=_ACCOUNT_ID,
    organization_id=_ORGANIZATION_ID,
    actions=1,
    chain_head=_CHAINED.hash,
    refusals=1,
    refusal_head=hashlib.sha256(_NOTHING + bytes.fromhex(_HASH)).hexdigest(),
)
_REFUSED: Final = Parameter(
    name="refused",
    description="true: the receipts of refusals, which are also listed without it.",
    schema={"type": "boolean", "const": True},
    example=True,
)

RECEIPT_OPERATIONS: Final = (
    Described(
        method="POST",
        path="/v1/controls/evaluate",
        operation_id="evaluateCommand",
        summary="Evaluate a command without submitting it",
        description="The receipt that a submit of this command would get now. Nothing is recorded, sent or counted; "
        "rates and duplicates are read as they are. Limits of the broker appear as the rule CAPABILITY. Only the "
        "controls are evaluated: a submit also checks that the account is enabled and the order is still open.",
        operation=Operation.READ_CONTROLS,
        body=EvaluateBody,
        body_examples={
            "market": {
                "account_id": str(_ACCOUNT_ID),
                "command": {
                    "type": "CREATE",
                    "payload": {"symbol": "AAPL", "order_side": "BUY", "spec": {"Market": {"quantity": "5000"}}},
                },
            }
        },
        answer_example=EvaluationBody(Verdict.REFUSED, _SHOWN),
        codes=("not_found", "environment_mismatch", "concurrent_change"),
    ),
    Described(
        path=f"{_ACCOUNT}/receipts",
        operation_id="listReceipts",
        summary="List receipts of an intent, or of refusals",
        description="With intent_id: one receipt per command of the intent, in order, each followed by the receipt of "
        "a refusal at its door, if there was one. Without it: receipts of commands that a control refused, at "
        "acceptance or at the door, by refusal_no, which has no gaps.",
        operation=Operation.READ_INTENTS,
        answer_example=_PAGE,
        parameters=(OF_INTENT, _REFUSED, NEXT_CURSOR, LIMIT),
    ),
    Described(
        path=f"{_ACCOUNT}/receipts/{{receipt_id}}",
        operation_id="showReceipt",
        summary="Read a receipt",
        description="All rules that applied to a command, with limit, observed value and verdict. The hash is SHA-256 "
        "of text.",
        operation=Operation.READ_INTENTS,
        answer_example=_RECEIPT,
    ),
    Described(
        path=f"{_ACCOUNT}/chain",
        operation_id="listChainedActions",
        summary="List actions with their hashes, and the heads of both chains",
        description="Every field that an action's hash covers, and the receipt chained with it, in commit order: the "
        "data that `openbell receipts export` writes. The first page also has the number of actions and refusals of "
        "the account, and the heads of their hash chains at these numbers. Rows up to there never change, so later "
        "pages lead to the same heads.",
        operation=Operation.READ_INTENTS,
        answer_example=ChainPageBody([_CHAINED], None, _CURSOR, heads=_HEADS),
        parameters=(NEXT_CURSOR, LIMIT),
    ),
)
