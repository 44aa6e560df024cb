"""Writes a history down: every request of a client as it happens, and every book when all is quiet again."""

import hashlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

import asyncpg
import httpx
import msgspec

from openbell import Action, AsyncClient
from openbell.wire import trading_pb2 as pb
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.orders.action_lifecycle import ActionState
from proof.books import event_heads, read_books
from proof.load import Follower, until_followed
from support.history.history import Call, Fill, History, LoggedEvent, Operation, Result, Sight

READS_MAX = 20
_PATH = re.compile(r"/v1/accounts/(?P<account>[^/]+)/intents(/(?P<intent>[^/]+))?")
# Raised before a byte of the request leaves.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class RecordingTransport(httpx.AsyncBaseTransport):
    """Sends what a client asks for, and adds a call for every command and every read of one intent."""

    def __init__(self, process: str, calls: list[Call]) -> None:
        self._process = process
        self._calls = calls
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        begun = time.monotonic()
        result, answer = Result.UNKNOWN, None
        try:
            response = await self._inner.handle_async_request(request)
            result, answer = _meaning(response.status_code, await response.aread())
        except _NEVER_SENT:
            # A command that never left is as good as refused; a read that never left says nothing.
            result = Result.UNKNOWN if request.method == "GET" else Result.FAIL
            raise
        finally:
            # Also when the wait was cut short: what nobody heard of may have happened.
            self._note(request, begun, result, answer)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _note(self, request: httpx.Request, begun: float, result: Result, answer: Action | None) -> None:
        path = _PATH.fullmatch(request.url.path)
        operation = _operation(request)
        if path is None or (operation is Operation.READ and path["intent"] is None):
            return
        self._calls.append(
            Call(
                process=self._process,
                operation=operation,
                account_id=path["account"],
                key=request.headers.get("idempotency-key"),
                digest=hashlib.sha256(request.content).hexdigest(),
                begun=begun,
                ended=time.monotonic(),
                result=result,
                intent_id=answer.intent_id if answer else path["intent"],
                sight=Sight.of(answer) if answer else None,
            )
        )


def _operation(request: httpx.Request) -> Operation:
    if request.method == "GET":
        return Operation.READ
    return Operation(json.loads(request.content)["command"]["type"].lower())


def _meaning(status: int, body: bytes) -> tuple[Result, Action | None]:
    """What an answer tells its caller; one that cannot be read tells nothing."""
    if 400 <= status < 500:
        return Result.FAIL, None
    if not 200 <= status < 300:
        return Result.UNKNOWN, None
    try:
        return Result.OK, msgspec.json.decode(body, type=Action)
    except msgspec.MsgspecError:
        return Result.UNKNOWN, None


async def read_history(
    platform: LocalPlatform, client: AsyncClient, calls: Sequence[Call], followers: Sequence[Follower]
) -> History:
    """The history of one moment: read again while events arrive, such as of balances some seconds after a fill."""
    for _ in range(READS_MAX):
        heads = await event_heads(platform)
        await until_followed(followers, heads)
        history = await _read_history(platform, client, calls, followers)
        if await event_heads(platform) == heads:
            break
    return history


async def _read_history(
    platform: LocalPlatform, client: AsyncClient, calls: Sequence[Call], followers: Sequence[Follower]
) -> History:
    """The history, with every book read anew; the client is one whose own reads are not recorded."""
    connection = await asyncpg.connect(platform.owner_url, timeout=60)
    try:
        events = await connection.fetch(
            "select account_id, event_no, kind, intent_id, seq, body from openbell.account_events"
            " order by account_id, event_no"
        )
        executions = await connection.fetch(
            "select account_id, order_id, execution_id, quantity from openbell.executions"
        )
        positions = await connection.fetch("select account_id, symbol, quantity from openbell.positions")
    finally:
        await connection.close()
    log: dict[str, list[LoggedEvent]] = defaultdict(list)
    for row in events:
        log[str(row["account_id"])].append(_stored_event(row))
    return History(
        calls=list(calls),
        books=await read_books(platform, client, []),
        fills=[
            Fill(str(row["account_id"]), str(row["order_id"]), row["execution_id"], row["quantity"])
            for row in executions
        ],
        positions={(str(row["account_id"]), row["symbol"]): row["quantity"] for row in positions},
        heads={str(account_id): head for account_id, head in (await event_heads(platform)).items()},
        log=log,
        followed={follower.account_id: [told_event(frame) for frame in follower.frames] for follower in followers},
    )


def _stored_event(row: asyncpg.Record) -> LoggedEvent:
    kind = EventKind(row["kind"])
    body = json.loads(row["body"] or "{}")
    if kind is EventKind.ACCOUNT_CHANGED:
        return LoggedEvent(row["event_no"], kind, "", None, body["credential_status"], None)
    if kind is EventKind.EXTERNAL_ORDER:
        filled = Decimal(body["filled_quantity"])
        return LoggedEvent(row["event_no"], kind, "", None, body["status"], filled)
    if kind is EventKind.BROKER_TRADE:
        filled = Decimal(body["cumulative_quantity"])
        return LoggedEvent(row["event_no"], kind, str(row["intent_id"]), None, body["kind"], filled)
    if kind is EventKind.CONTROL_CHANGED:
        return LoggedEvent(row["event_no"], kind, "", None, body["change"], None)
    if kind is EventKind.BALANCES_CHANGED:
        return LoggedEvent(row["event_no"], kind, "", None, body["cash"] or "", None)
    if kind is EventKind.INTENT_REFUSED:
        return LoggedEvent(row["event_no"], kind, "", None, body["receipt_id"], None)
    if kind is EventKind.INTENT_ACTION:
        # An event without a body is an action just recorded.
        state = body.get("status", ActionState.QUEUED)
        return LoggedEvent(row["event_no"], kind, str(row["intent_id"]), row["seq"], state, None)
    filled = Decimal(body["filled_quantity"])
    return LoggedEvent(row["event_no"], kind, str(row["intent_id"]), None, body["status"], filled)


def told_event(frame: pb.TradingEvent) -> LoggedEvent:
    """An event as the stream told it."""
    if frame.WhichOneof("event") == "account_changed":
        status = frame.account_changed.credential_status
        return LoggedEvent(frame.account_seq, EventKind.ACCOUNT_CHANGED, "", None, status, None)
    if frame.WhichOneof("event") == "external_order":
        theirs = frame.external_order
        filled = Decimal(theirs.filled_quantity)
        return LoggedEvent(frame.account_seq, EventKind.EXTERNAL_ORDER, "", None, theirs.status, filled)
    if frame.WhichOneof("event") == "broker_trade":
        trade = frame.broker_trade
        filled = Decimal(trade.cumulative_quantity)
        return LoggedEvent(frame.account_seq, EventKind.BROKER_TRADE, trade.intent_id, None, trade.kind, filled)
    if frame.WhichOneof("event") == "control_changed":
        change = frame.control_changed.change
        return LoggedEvent(frame.account_seq, EventKind.CONTROL_CHANGED, "", None, change, None)
    if frame.WhichOneof("event") == "intent_refused":
        receipt_id = frame.intent_refused.receipt_id
        return LoggedEvent(frame.account_seq, EventKind.INTENT_REFUSED, "", None, receipt_id, None)
    if frame.WhichOneof("event") == "balances_changed":
        cash = frame.balances_changed.cash
        return LoggedEvent(frame.account_seq, EventKind.BALANCES_CHANGED, "", None, cash, None)
    if frame.WhichOneof("event") == "intent_action":
        action = frame.intent_action
        return LoggedEvent(
            frame.account_seq, EventKind.INTENT_ACTION, action.intent_id, action.seq, action.status, None
        )
    order = frame.broker_order
    filled = Decimal(order.filled_quantity)
    return LoggedEvent(frame.account_seq, EventKind.BROKER_ORDER, order.intent_id, None, order.status, filled)
