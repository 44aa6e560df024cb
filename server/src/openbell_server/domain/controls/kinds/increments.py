"""Tick and lot sizes: prices and quantities that do not fit are refused, never rounded."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.findings import Comparison, Finding
from openbell_server.domain.controls.kind import NOTHING, ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.numbers import WIDE, shown
from openbell_server.domain.controls.parameters import DECIMAL, Shape
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, coarser
from openbell_server.domain.orders.order_terms import OrderType

_INSTRUMENT: Final = frozenset({Need.INSTRUMENT})


@dataclass(frozen=True, slots=True)
class Tick:
    """The step of prices where the broker reports none; None: then the input is missing."""

    tick: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Lot:
    """The step of quantities where the broker reports none; None: then the input is missing."""

    lot: Decimal | None = None


def _fits(number: Decimal, step: Decimal) -> bool:
    return not WIDE.remainder(number, step)


def _neighbours(number: Decimal, step: Decimal) -> str:
    """The multiples next to a number that are above zero."""
    below = WIDE.multiply(WIDE.divide_int(number, step), step)
    above = shown(WIDE.add(below, step))
    return f"{shown(below)} or {above}" if below else above


def _judge_tick(rule: Rule, command: CommandFacts, facts: Facts) -> Finding | None:
    assert isinstance(rule.parameters, Tick)
    prices = {
        name: price
        for name, price in (("limit_price", command.terms.limit_price), ("stop_price", command.terms.stop_price))
        if price is not None
    }
    if not prices:
        return None
    reported = None if facts.instrument is None else facts.instrument.tick
    tick = reported or rule.parameters.tick
    if tick is None:
        return unavailable(rule, command, Comparison.MULTIPLE_OF, None, f"the tick of {command.symbol}")
    wrong = [name for name, price in prices.items() if not _fits(price, tick)]
    judged = wrong[0] if wrong else next(iter(prices))
    return found(
        rule,
        Comparison.MULTIPLE_OF,
        shown(tick),
        shown(prices[judged]),
        passes=not wrong,
        would_pass=" and ".join(f"a {name} of {_neighbours(prices[name], tick)}" for name in wrong),
        inputs={name: shown(price) for name, price in prices.items()} | {"judged": judged, **_source("tick", reported)},
    )


def _judge_lot(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    """Where fractions are not traded, the quantity must also be whole."""
    assert isinstance(rule.parameters, Lot)
    instrument, quantity = facts.instrument, command.terms.quantity
    reported = None if instrument is None else instrument.lot
    lots = [lot for lot in (reported or rule.parameters.lot,) if lot is not None]
    if instrument is not None and not instrument.fractional:
        lots.append(Decimal(1))
    if not lots:
        return unavailable(rule, command, Comparison.MULTIPLE_OF, None, f"the lot of {command.symbol}")
    wrong = [lot for lot in lots if not _fits(quantity, lot)]
    lot = wrong[0] if wrong else lots[0]
    return found(
        rule,
        Comparison.MULTIPLE_OF,
        shown(lot),
        shown(quantity),
        passes=not wrong,
        would_pass=f"a quantity of {_neighbours(quantity, lot)}",
        inputs=_source("lot", reported),
    )


def _source(name: str, reported: Decimal | None) -> dict[str, str]:
    return {f"{name}_source": "rule" if not reported else "broker"}


def _tick_needs(_: Tick, command: CommandFacts) -> frozenset[Need]:
    return NOTHING if command.order_type is OrderType.MARKET else _INSTRUMENT


TICK: Final = ControlKind(
    code="TICK",
    summary="Refuses a limit or stop price that is not a multiple of the tick; the broker's tick precedes the rule's.",
    shape=Shape(Tick, {"tick": DECIMAL}),
    unit=Unit.PRICE,
    judge=_judge_tick,
    needs=_tick_needs,
    tightens=by_parameter(tick=coarser),
)
LOT: Final = ControlKind(
    code="LOT",
    summary="Refuses a quantity that is not a multiple of the lot; the broker's lot precedes the rule's.",
    shape=Shape(Lot, {"lot": DECIMAL}),
    unit=Unit.UNITS,
    judge=_judge_lot,
    needs=lambda _parameters, _command: _INSTRUMENT,
    tightens=by_parameter(lot=coarser),
)
