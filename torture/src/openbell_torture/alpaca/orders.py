"""An order of the engine as Alpaca has it: a chain of orders, with a new one each time that it was replaced."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import NAMESPACE_URL, UUID, uuid5

from openbell_exchange.history import Fill, History, Step
from openbell_exchange.terms import (
    EXACT,
    OrderType,
    ReportStatus,
    TimeInForce,
    decimal_text,
    exact_total,
)

Json = dict[str, Any]

TYPES: Final = {
    "market": OrderType.MARKET,
    "limit": OrderType.LIMIT,
    "stop": OrderType.STOP,
    "stop_limit": OrderType.STOP_LIMIT,
}
TIMES_IN_FORCE: Final = {
    "day": TimeInForce.DAY,
    "gtc": TimeInForce.GOOD_TILL_CANCEL,
    "ioc": TimeInForce.IMMEDIATE_OR_CANCEL,
    "fok": TimeInForce.FILL_OR_KILL,
    "opg": TimeInForce.AT_OPEN,
    "cls": TimeInForce.AT_CLOSE,
}
_TYPE_NAMES: Final = {ours: theirs for theirs, ours in TYPES.items()}
# EXT is a day order that also trades outside regular hours.
_TIME_NAMES: Final = {ours: theirs for theirs, ours in TIMES_IN_FORCE.items()} | {TimeInForce.EXT: "day"}
_STATUSES: Final = {
    ReportStatus.FILLED: "filled",
    ReportStatus.CANCELED: "canceled",
    ReportStatus.EXPIRED: "expired",
}
_AVERAGE: Final = Decimal("0.000001")
_ID: Final = "a19aca00-{index:04x}-4000-8000-{number:012x}"


def order_id(number: int, index: int) -> str:
    """Alpaca's id of one order of a chain; it can be read back, so that nothing need be kept."""
    return _ID.format(index=index, number=number)


def order_of(text: str) -> tuple[int, int] | None:
    """The engine's number and the place in the chain, or None if no order is named so."""
    try:
        parts = str(UUID(text)).split("-")
    except ValueError:
        return None
    number, index = int(parts[4], 16), int(parts[1], 16)
    return (number, index) if order_id(number, index) == "-".join(parts) else None


def asset_id(symbol: str) -> str:
    """Alpaca's id of what is traded."""
    return str(uuid5(NAMESPACE_URL, f"asset {symbol}"))


def time_text(time: datetime) -> str:
    """A time as Alpaca writes it, down to nanoseconds."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"


def order_json(history: History, index: int, until: int | None = None) -> Json:
    """One order of the chain as it stood after an update, or as it stands now."""
    member = history.members[index]
    steps = [step for step in history.steps if until is None or step.number <= until]
    last = steps[-1]
    newest = history.index_at(last.happened_at)
    filled = _filled(history.fills_of(index), steps)
    quantity = exact_total(quantity for quantity, _ in filled.values())
    successor = history.members[index + 1] if index < newest else None
    status = "replaced" if successor else _status(last.status, quantity)
    updated_at = time_text(successor.began_at if successor else last.happened_at)
    kind = _TYPE_NAMES[history.order_type]
    return {
        "id": order_id(history.number, index),
        "client_order_id": member.client_order_id,
        "created_at": time_text(member.began_at),
        "updated_at": updated_at,
        "submitted_at": time_text(member.began_at),
        "filled_at": updated_at if status == "filled" else None,
        "expired_at": updated_at if status == "expired" else None,
        "expires_at": None,
        "canceled_at": updated_at if status == "canceled" else None,
        "failed_at": None,
        "replaced_at": updated_at if successor else None,
        "replaced_by": order_id(history.number, index + 1) if successor else None,
        "replaces": order_id(history.number, index - 1) if index else None,
        "asset_id": asset_id(history.symbol),
        "symbol": history.symbol,
        "asset_class": "us_equity",
        "notional": None,
        "qty": decimal_text(history.quantity_of(index)),
        "filled_qty": decimal_text(quantity),
        "filled_avg_price": _average(list(filled.values()), quantity),
        "order_class": "",
        "order_type": kind,
        "type": kind,
        "side": history.side,
        "time_in_force": _TIME_NAMES[member.time_in_force],
        "limit_price": _text(member.limit_price),
        "stop_price": _text(member.stop_price),
        "status": status,
        "extended_hours": member.time_in_force is TimeInForce.EXT,
        "legs": None,
        "trail_percent": None,
        "trail_price": None,
        "hwm": None,
        "position_intent": "buy_to_open" if history.side == "buy" else "sell_to_close",
        "subtag": None,
        "source": None,
        # No document names it: clients must read past what they do not know.
        "routed_via": {"venue": "loopback", "hops": ["1"]},
    }


def activities(history: History) -> list[Json]:
    """The chain's fills as the activities of an account list them.

    Alpaca's trading API has no message for a fill that was taken back: it is not listed any more, and one that was
    corrected is listed as it is now. What had filled in all, by which a fill is known, stays as it was.
    """
    return [
        _activity(history, index, total, fill)
        for index in range(len(history.members))
        for total, fill in _running(history.fills_of(index))
        if _now(fill)[0]
    ]


def _running(fills: Sequence[Fill]) -> Iterator[tuple[Decimal, Fill]]:
    """Each fill, with what had filled after it."""
    total = Decimal(0)
    for fill in fills:
        total = EXACT.add(total, fill.quantity)
        yield total, fill


def _now(fill: Fill) -> tuple[Decimal, Decimal]:
    """Quantity and price, as they are by now."""
    return fill.changes[max(fill.changes)] if fill.changes else (fill.quantity, fill.price)


def _activity(history: History, index: int, total: Decimal, fill: Fill) -> Json:
    quantity, price = _now(fill)
    leaves = EXACT.subtract(history.quantity_of(index), total)
    return {
        "id": f"{fill.executed_at.astimezone(UTC):%Y%m%d%H%M%S%f}::{_execution('activity', history, fill)}",
        "activity_type": "FILL",
        "transaction_time": time_text(fill.executed_at),
        "type": "partial_fill" if leaves else "fill",
        "price": decimal_text(price),
        "qty": decimal_text(quantity),
        "side": history.side,
        "symbol": history.symbol,
        "leaves_qty": decimal_text(leaves),
        "order_id": order_id(history.number, index),
        "cum_qty": decimal_text(total),
        "order_status": "partially_filled" if leaves else "filled",
        "swap_rate": "1",
    }


def trade_updates(history: History, number: int, position: Decimal) -> list[Json]:
    """What Alpaca's stream sends for one update of the engine."""
    place = next(i for i, step in enumerate(history.steps) if step.number == number)
    step = history.steps[place]
    index = history.index_at(step.happened_at)
    timestamp = time_text(step.happened_at)

    def event_of(event: str, of: int, **more: object) -> Json:
        return {"event": event, "timestamp": timestamp, "order": order_json(history, of, number), **more}

    if step.revision is not None:
        # The trading API's stream has no message for a bust or a correction: only the order as it now stands.
        return [event_of("restated", index)]
    if step.ordinal is not None:
        fill = next(fill for fill in history.fills if fill.ordinal == step.ordinal)
        more = {
            "execution_id": _execution("stream", history, fill),
            "price": decimal_text(fill.price),
            "qty": decimal_text(fill.quantity),
            "position_qty": decimal_text(position),
        }
        return [event_of("fill" if step.status is ReportStatus.FILLED else "partial_fill", index, **more)]
    if step.status is not ReportStatus.WORKING:
        return [event_of(_STATUSES[step.status], index)]
    if place == 0:
        # An event that few know comes first, now and then.
        first = {0: ["pending_new"], 1: ["accepted_by_venue"]}.get(history.number % 4, [])
        return [event_of(event, 0) for event in (*first, "new")]
    if history.members[index].began_at == step.happened_at:
        # `replaced` is about the old order.
        return [event_of("replaced", index - 1), event_of("new", index)]
    # A stop was touched.
    return [event_of("calculated", index)]


def _execution(where: str, history: History, fill: Fill) -> str:
    """The stream and the activities have each an id of their own for the same fill."""
    return str(uuid5(NAMESPACE_URL, f"{where} {history.number} {fill.ordinal}"))


def _filled(fills: Sequence[Fill], steps: Sequence[Step]) -> dict[int, tuple[Decimal, Decimal]]:
    """Quantity and price of each fill, as reported so far."""
    by_ordinal = {fill.ordinal: fill for fill in fills}
    filled: dict[int, tuple[Decimal, Decimal]] = {}
    for step in steps:
        if step.ordinal in by_ordinal:
            fill = by_ordinal[step.ordinal]
            filled[fill.ordinal] = (fill.quantity, fill.price) if step.revision is None else fill.changes[step.revision]
    return filled


def _status(status: ReportStatus, filled: Decimal) -> str:
    if status is ReportStatus.WORKING:
        return "partially_filled" if filled else "new"
    return _STATUSES[status]


def _average(fills: Sequence[tuple[Decimal, Decimal]], quantity: Decimal) -> str | None:
    if not quantity:
        return None
    value = exact_total(EXACT.multiply(part, price) for part, price in fills)
    return decimal_text(EXACT.divide(value, quantity).quantize(_AVERAGE).normalize())


def _text(number: Decimal | None) -> str | None:
    return None if number is None else decimal_text(number)
