"""What the broker has, compared with what the bot asked for and was answered."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from openbell_exchange.history import History
from openbell_exchange.terms import OrderType, exact_total
from openbell_torture.alpaca.orders import order_id, order_json
from openbell_torture.journal import ENDS, Entry, Journal

_TERMS: Final = ("symbol", "side", "qty", "type", "limit_price", "stop_price", "time_in_force")
_STOPS: Final = frozenset({OrderType.STOP, OrderType.STOP_LIMIT})


class Weakness(StrEnum):
    """What went wrong, as the report calls it."""

    # The broker has two orders where the bot wanted one.
    DOUBLED = "doubled"
    # The broker has an order that no answer to the bot named, or whose end was reported to it wrongly.
    LOST_TRACK = "lost track of"
    # The stop that the bot asked for is not there, and the position is.
    UNPROTECTED = "unprotected"
    # The bot states that it holds something else.
    WRONG_POSITION = "wrong position"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    weakness: Weakness
    # Seconds since the bot was started.
    at: float
    text: str
    # The requests that led to it.
    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """One order that the bot wanted, and each time that it asked for it."""

    entries: Sequence[Entry]
    orders: Sequence[History]


def actions_of(journal: Journal, orders: Sequence[History]) -> list[Action]:
    """Requests for the same order: with the same id, or with the same terms after one that was not accepted."""
    by_id: dict[str | None, History] = {history.members[0].client_order_id: history for history in orders}
    groups: list[list[Entry]] = []
    open_group: dict[tuple[Any, ...], list[Entry]] = {}
    of_id: dict[str, list[Entry]] = {}
    for entry in journal.entries:
        if not entry.is_submit or not entry.asked.is_whole:
            continue
        terms = tuple(str(entry.asked.fields.get(name)) for name in _TERMS)
        name = entry.asked.fields.get("client_order_id")
        group = of_id.get(str(name)) if name else None
        if group is None and terms in open_group and not open_group[terms][-1].is_accepted:
            group = open_group[terms]
        if group is None:
            group = []
            groups.append(group)
        group.append(entry)
        open_group[terms] = group
        if name:
            of_id[str(name)] = group
    return [
        Action(group, [by_id[name] for name in dict.fromkeys(entry.order_name for entry in group) if name in by_id])
        for group in groups
    ]


def findings_of(journal: Journal, orders: Sequence[History], actions: Sequence[Action]) -> list[Finding]:
    found = [
        *_doubled(actions),
        *_lost(journal, actions),
        *_unprotected(journal, orders),
        *_wrong_positions(journal, orders),
    ]
    return sorted(found, key=lambda finding: finding.at)


def _doubled(actions: Iterable[Action]) -> Iterable[Finding]:
    for action in actions:
        kept = [order for order in action.orders if order.fills or order.is_working]
        if len(kept) > 1:
            last = action.entries[-1]
            yield Finding(
                weakness=Weakness.DOUBLED,
                at=last.at,
                text=f"{last.text}: asked for once, the broker has {len(kept)} orders",
                ordinals=tuple(entry.ordinal for entry in action.entries),
            )


def _lost(journal: Journal, actions: Iterable[Action]) -> Iterable[Finding]:
    for action in actions:
        for order in action.orders:
            for index in range(len(order.members)):
                shown = order_json(order, index)
                known = journal.known.get(order_id(order.number, index))
                text = None
                if known is None:
                    state = f"{shown['status']}, {shown['filled_qty']} filled"
                    text = f"the broker has it ({state}), the bot has no answer that names it"
                elif known.status in ENDS and known.filled != Decimal(shown["filled_qty"]):
                    last = f"{known.status} with {known.filled} filled"
                    text = f"the bot last knew {last}, now it is {shown['filled_qty']}"
                if text:
                    entry = action.entries[-1]
                    yield Finding(
                        weakness=Weakness.LOST_TRACK,
                        at=known.at if known else entry.at,
                        text=f"{entry.text}: {text}",
                        ordinals=tuple(entry.ordinal for entry in action.entries),
                    )


def _unprotected(journal: Journal, orders: Sequence[History]) -> Iterable[Finding]:
    positions = positions_of(orders)
    wanted: dict[str, list[Entry]] = defaultdict(list)
    for entry in journal.entries:
        if entry.is_submit and str(entry.asked.fields.get("type")) in {"stop", "stop_limit"}:
            wanted[str(entry.asked.fields.get("symbol"))].append(entry)
    for symbol, entries in wanted.items():
        held = positions.get(symbol, Decimal(0))
        closing = "sell" if held > 0 else "buy"
        covered = exact_total(
            history.members[-1].total - history.filled
            for history in orders
            if history.symbol == symbol
            and history.side == closing
            and history.order_type in _STOPS
            and history.is_working
        )
        if held and covered < abs(held):
            yield Finding(
                weakness=Weakness.UNPROTECTED,
                at=entries[-1].at,
                text=f"{symbol}: {held} held, stops for {covered}",
                ordinals=tuple(entry.ordinal for entry in entries),
            )


def _wrong_positions(journal: Journal, orders: Sequence[History]) -> Iterable[Finding]:
    if journal.believed is None:
        return
    held = positions_of(orders)
    for symbol in sorted({*held, *journal.believed}):
        theirs, ours = held.get(symbol, Decimal(0)), journal.believed.get(symbol, Decimal(0))
        if theirs != ours:
            yield Finding(
                weakness=Weakness.WRONG_POSITION,
                at=journal.entries[-1].at if journal.entries else 0.0,
                text=f"{symbol}: the bot states {ours}, the broker has {theirs}",
                ordinals=(),
            )


def positions_of(orders: Iterable[History]) -> dict[str, Decimal]:
    positions: dict[str, Decimal] = defaultdict(Decimal)
    for order in orders:
        positions[order.symbol] += order.filled if order.side == "buy" else -order.filled
    return {symbol: quantity for symbol, quantity in positions.items() if quantity}
