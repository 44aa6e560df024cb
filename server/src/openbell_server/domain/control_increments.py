"""Controls of the steps in which prices and quantities go: what does not fit is refused, never rounded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.control_facts import Asked, Facts, Need
from openbell_server.domain.control_kinds import NOTHING, ControlKind, found, unavailable
from openbell_server.domain.control_numbers import WIDE, shown
from openbell_server.domain.control_parameters import Parameters
from openbell_server.domain.control_rules import Rule
from openbell_server.domain.findings import Comparison, Finding
from openbell_server.domain.orders import OrderType

_INSTRUMENT: Final = frozenset({Need.INSTRUMENT})
_TICK_SHAPE: Final = '{"tick"?: "…"}, a decimal string that counts where the broker tells none'
_LOT_SHAPE: Final = '{"lot"?: "…"}, a decimal string that counts where the broker tells none'


@dataclass(frozen=True, slots=True)
class Step:
    """The step where the broker tells none; None: then it is missing."""

    step: Decimal | None = None


def _decoder(name: str, shape: str) -> Callable[[Mapping[str, Any]], Step]:
    def decode(parameters: Mapping[str, Any]) -> Step:
        read = Parameters(parameters, shape).only(set(), {name})
        return Step(read.decimal(name) if name in parameters else None)

    return decode


def _fits(number: Decimal, step: Decimal) -> bool:
    return not WIDE.remainder(number, step)


def _neighbours(number: Decimal, step: Decimal) -> str:
    """The multiples next to a number, those above zero."""
    below = WIDE.multiply(WIDE.divide_int(number, step), step)
    above = shown(WIDE.add(below, step))
    return f"{shown(below)} or {above}" if below else above


def _judge_tick(rule: Rule, asked: Asked, facts: Facts) -> Finding | None:
    assert isinstance(rule.parameters, Step)
    prices = {
        name: price
        for name, price in (("limit_price", asked.terms.limit_price), ("stop_price", asked.terms.stop_price))
        if price is not None
    }
    if not prices:
        return None
    told = None if facts.instrument is None else facts.instrument.tick
    tick = told or rule.parameters.step
    if tick is None:
        return unavailable(rule, asked, Comparison.MULTIPLE_OF, None, f"the tick of {asked.symbol}")
    wrong = [name for name, price in prices.items() if not _fits(price, tick)]
    judged = wrong[0] if wrong else next(iter(prices))
    return found(
        rule,
        Comparison.MULTIPLE_OF,
        shown(tick),
        shown(prices[judged]),
        passes=not wrong,
        would_pass=" and ".join(f"a {name} of {_neighbours(prices[name], tick)}" for name in wrong),
        inputs={name: shown(price) for name, price in prices.items()} | {"judged": judged, **_source("tick", told)},
    )


def _judge_lot(rule: Rule, asked: Asked, facts: Facts) -> Finding:
    """Where fractions are not traded, a quantity is whole whatever the lot."""
    assert isinstance(rule.parameters, Step)
    instrument, quantity = facts.instrument, asked.terms.quantity
    told = None if instrument is None else instrument.lot
    lots = [lot for lot in (told or rule.parameters.step,) if lot is not None]
    if instrument is not None and not instrument.fractional:
        lots.append(Decimal(1))
    if not lots:
        return unavailable(rule, asked, Comparison.MULTIPLE_OF, None, f"the lot of {asked.symbol}")
    wrong = [lot for lot in lots if not _fits(quantity, lot)]
    lot = wrong[0] if wrong else lots[0]
    return found(
        rule,
        Comparison.MULTIPLE_OF,
        shown(lot),
        shown(quantity),
        passes=not wrong,
        would_pass=f"a quantity of {_neighbours(quantity, lot)}",
        inputs=_source("lot", told),
    )


def _source(name: str, told: Decimal | None) -> dict[str, str]:
    return {f"{name}_source": "rule" if not told else "broker"}


def _tick_needs(_: Step, asked: Asked) -> frozenset[Need]:
    return NOTHING if asked.order_type is OrderType.MARKET else _INSTRUMENT


TICK: Final = ControlKind(code="TICK", decode=_decoder("tick", _TICK_SHAPE), judge=_judge_tick, needs=_tick_needs)
LOT: Final = ControlKind(
    code="LOT",
    decode=_decoder("lot", _LOT_SHAPE),
    judge=_judge_lot,
    needs=lambda _parameters, _asked: _INSTRUMENT,
)
