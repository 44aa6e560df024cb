"""Compares our ledger with the broker's, order by order. Pure, so that tests can pass forged ledgers."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from openbell import Action, Execution
from openbell_server.brokers.paper.wire import LedgerOrderBody
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.action_outcomes import NOT_AT_BROKER, NOT_SENT
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_aggregate import AVERAGE_PLACES

# The broker's possible states for each of ours that has an order; a cancel may still be on its way.
_SAME: Final[dict[str, frozenset[ReportStatus]]] = {
    "FILLED": frozenset({ReportStatus.FILLED}),
    "CANCELED": frozenset({ReportStatus.CANCELED}),
    "EXPIRED": frozenset({ReportStatus.EXPIRED}),
    "NEW": frozenset({ReportStatus.WORKING}),
    "PARTIALLY_FILLED": frozenset({ReportStatus.WORKING}),
    "PENDING_CANCEL": frozenset({ReportStatus.WORKING, ReportStatus.FILLED, ReportStatus.CANCELED}),
}
_NO_ORDER: Final = frozenset({"REJECTED", "FAILED", "SKIPPED"})
_PROOFS: Final = frozenset({NOT_AT_BROKER, NOT_SENT})
# Account, symbol, side, quantity and limit price.
Terms = tuple[str, str, str, Decimal, Decimal | None]


class Finding(StrEnum):
    DOUBLED = "doubled"
    LOST = "lost"
    DISAGREEING = "disagreeing"
    UNFINISHED = "unfinished"
    # The following are not disagreements: we correctly show that there is no order, or that its state is unknown.
    PROVEN_ABSENT = "proven absent"
    UNKNOWN = "unknown, with evidence"
    REFUSED = "refused"
    UNSENT = "cancelled unsent"


FAULTS: Final = (Finding.DOUBLED, Finding.LOST, Finding.DISAGREEING, Finding.UNFINISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Both ledgers; intents holds the newest action of each, with its execution."""

    accepted: frozenset[str]
    actions: Sequence[Action]
    intents: Mapping[str, Action]
    orders: Sequence[LedgerOrderBody]
    # Orders that the broker received twice and refused because of their id; must be 0.
    repeated_submits: int


@dataclass(frozen=True, slots=True)
class Side:
    """Totals of one ledger."""

    orders: int
    states: Mapping[str, int]
    filled_quantity: Decimal


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both totals, and a sentence for each finding."""

    ours: Side
    theirs: Side
    findings: Mapping[Finding, Sequence[str]]

    @property
    def agree(self) -> bool:
        return not any(self.findings[fault] for fault in FAULTS)


def compare(books: Books) -> Comparison:
    """Match orders by client order id, which is derived from the action, and check every intent and order."""
    creates = {action.intent_id: action for action in books.actions if action.action_type == "CREATE"}
    # The current terms: the last acknowledged replace, because actions are in order.
    replaced = {a.intent_id: a for a in books.actions if a.action_type == "REPLACE" and a.status == "ACKED"}
    intents = {client_order_id(ActionId(UUID(action.id))): action.intent_id for action in books.actions}
    # After a restore an order may have the id of an unknown action; then its broker's id identifies the intent.
    adopted = {
        order_id: intent_id
        for intent_id, latest in books.intents.items()
        for order_id in (latest.execution.broker_order_ids if latest.execution else ())
    }
    matched: dict[str, list[LedgerOrderBody]] = defaultdict(list)
    findings: dict[Finding, list[str]] = {finding: [] for finding in Finding}
    findings[Finding.DOUBLED] += ["the broker refused an order that it had been sent before"] * books.repeated_submits
    doubts = Counter(terms(create) for create in creates.values() if _is_unknown(books.intents.get(create.intent_id)))
    for order in books.orders:
        intent_id = intents.get(order.client_order_id or "") or adopted.get(order.broker_order_id)
        if intent_id is None and not order.client_order_id and doubts[terms_at_broker(order)]:
            # Without a client id it may belong to one of the unknown intents with the same terms.
            doubts[terms_at_broker(order)] -= 1
        elif intent_id is None:
            findings[Finding.LOST].append(f"the broker has {order.broker_order_id}, which we do not show")
        else:
            matched[intent_id].append(order)
    for intent_id in sorted(books.accepted - creates.keys()):
        findings[Finding.LOST].append(f"intent {intent_id} was accepted, and we do not show it")
    for intent_id, create in creates.items():
        asked = replaced.get(intent_id, create)
        for finding, what in _judge(create, asked, books.intents.get(intent_id), matched[intent_id]):
            findings[finding].append(f"{create.symbol} {create.order_side} {create.quantity} ({intent_id}): {what}")
    return Comparison(_our_side(books), _their_side(books), findings)


def _is_unknown(latest: Action | None) -> bool:
    return latest is not None and latest.execution is not None and latest.execution.certainty == "UNKNOWN"


def is_placed(latest: Action | None) -> bool:
    """Whether we show that the broker has, or had, the order."""
    return latest is not None and latest.execution is not None and latest.execution.status in _SAME


def terms(create: Action) -> Terms:
    return create.account_id, create.symbol, create.order_side, create.quantity, create.limit_price


def terms_at_broker(order: LedgerOrderBody) -> Terms:
    limit_price = None if order.limit_price is None else Decimal(order.limit_price)
    return str(order.account_id), order.symbol, order.side.value, Decimal(order.quantity), limit_price


def _judge(
    create: Action, asked: Action, latest: Action | None, orders: Sequence[LedgerOrderBody]
) -> Iterator[tuple[Finding, str]]:
    execution = None if latest is None else latest.execution
    if execution is None:
        yield Finding.LOST, "it has no execution"
        return
    if len(orders) > 1 or len(execution.broker_order_ids) > 1:
        yield Finding.DOUBLED, f"the broker has it {len(orders)} times, we name {len(execution.broker_order_ids)}"
    elif execution.certainty == "UNKNOWN":
        yield Finding.UNKNOWN, _evidence(execution)
    elif execution.status in _NO_ORDER:
        yield from _judge_absent(create, execution, orders)
    elif execution.status not in _SAME:
        yield Finding.UNFINISHED, f"it is still {execution.status}"
    elif not orders:
        yield Finding.LOST, f"it is {execution.status} here, and the broker has no such order"
    else:
        differences = list(_differences(asked, execution, orders[0]))
        if differences:
            yield Finding.DISAGREEING, "; ".join(differences)


def _judge_absent(
    create: Action, execution: Execution, orders: Sequence[LedgerOrderBody]
) -> Iterator[tuple[Finding, str]]:
    reason = create.reason.code if create.reason else "no reason"
    if orders:
        yield Finding.LOST, f"it is {execution.status} here, and the broker has {orders[0].broker_order_id}"
    elif execution.status == "FAILED":
        yield (Finding.PROVEN_ABSENT if reason in _PROOFS else Finding.DISAGREEING), f"FAILED: {reason}"
    else:
        yield (Finding.REFUSED if execution.status == "REJECTED" else Finding.UNSENT), reason


def _differences(asked: Action, execution: Execution, order: LedgerOrderBody) -> Iterator[str]:
    quantity = sum((Decimal(fill.quantity) for fill in order.executions), Decimal(0))
    value = sum((Decimal(fill.quantity) * Decimal(fill.price) for fill in order.executions), Decimal(0))
    pairs: dict[str, tuple[object, object]] = {
        "account": (asked.account_id, str(order.account_id)),
        "symbol": (asked.symbol, order.symbol),
        "side": (asked.order_side, order.side.value),
        "quantity": (asked.quantity, Decimal(order.quantity)),
        "limit price": (asked.limit_price, None if order.limit_price is None else Decimal(order.limit_price)),
        "broker's id": (execution.broker_order_ids, (order.broker_order_id,)),
        "filled quantity": (execution.filled_quantity, Decimal(order.filled_quantity)),
        "sum of fills": (execution.filled_quantity, quantity),
        "average price": (execution.average_price, round(value / quantity, AVERAGE_PLACES) if quantity else None),
    }
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield f"{name}: {ours} here, {theirs} there"
    if order.status not in _SAME[execution.status]:
        yield f"state: {execution.status} here, {order.status} there"


def _evidence(execution: Execution) -> str:
    if execution.unknown is None:
        return "UNKNOWN"
    return f"UNKNOWN since {execution.unknown.since:%H:%M:%S}, {len(execution.unknown.probes)} look-ups so far"


def _our_side(books: Books) -> Side:
    executions = [latest.execution for latest in books.intents.values() if latest.execution is not None]
    shown = [e for e in executions if e.status in _SAME]
    names = {"NEW": "WORKING", "PARTIALLY_FILLED": "WORKING", "PENDING_CANCEL": "WORKING"}
    states = Counter(names.get(e.status, e.status) for e in shown)
    return Side(len(shown), states, sum((e.filled_quantity for e in executions), Decimal(0)))


def _their_side(books: Books) -> Side:
    states = Counter(order.status.value for order in books.orders)
    filled = sum((Decimal(order.filled_quantity) for order in books.orders), Decimal(0))
    return Side(len(books.orders), states, filled)
