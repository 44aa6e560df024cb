"""Limits on an order's value, and on the distance of its prices from the market's."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Final, Protocol

from openbell_server.domain.controls.facts import CommandFacts, Facts, Need, ReferencePrice
from openbell_server.domain.controls.findings import Comparison, Finding
from openbell_server.domain.controls.kind import ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.numbers import WIDE, fresh_price, millis, moved, price_inputs, product, shown
from openbell_server.domain.controls.kinds.times import utc_text
from openbell_server.domain.controls.parameters import (
    CURRENCY,
    DECIMAL,
    REFERENCE_AGE,
    REFERENCE_AGE_MILLIS,
    Shape,
    percent,
)
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, higher, incomparable, lower, lower_or_none
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.order_terms import PLACES_MAX, OrderSide, OrderType

BUFFER_PERCENT: Final = Decimal(5)
# Rates that are set once per banking day are older than that only if somebody stopped setting them.
EXCHANGE_RATE_DAYS: Final = 5
# A factor of the value, its receipt inputs, and the input that is missing.
_Factor = tuple[Decimal | None, dict[str, str], str | None]


class Valuation(Protocol):
    """In which currency, and by which prices, an order is valued."""

    @property
    def currency(self) -> str: ...

    @property
    def buffer_percent(self) -> Decimal: ...

    @property
    def ref_max_age_millis(self) -> int: ...


@dataclass(frozen=True, slots=True)
class OrderValue:
    """The highest value of one order; the buffer is added to the price of every order but a BUY with a limit price."""

    value: Decimal
    currency: str
    buffer_percent: Decimal = BUFFER_PERCENT
    ref_max_age_millis: int = REFERENCE_AGE_MILLIS


def _is_bounded(command: CommandFacts) -> bool:
    """Whether its own price is the highest at which it can trade; a SELL's limit and a stop are no upper bounds."""
    return command.order_side is OrderSide.BUY and command.terms.limit_price is not None


def value_needs(_: OrderValue, command: CommandFacts) -> frozenset[Need]:
    return frozenset({Need.INSTRUMENT}) if _is_bounded(command) else frozenset({Need.INSTRUMENT, Need.PRICE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What one unit of an order is worth at its worst price in a currency, as far as that is known."""

    price: Decimal | None
    # What the price is multiplied by.
    factor: Decimal | None
    inputs: dict[str, str]
    missing: str | None

    @property
    def one(self) -> Decimal | None:
        return None if self.price is None or self.factor is None else product(self.price, self.factor)


def worst_worth(parameters: Valuation, command: CommandFacts, facts: Facts) -> Worth:
    price, inputs, no_price = _worst_price(parameters, command, facts)
    factor, more_inputs, no_factor = _unit_factor(parameters.currency, command.symbol, facts)
    return Worth(
        price=price,
        factor=factor,
        inputs=inputs | {"currency": parameters.currency} | more_inputs,
        missing=_both(no_price, no_factor),
    )


def unit_worth(parameters: Valuation, symbol: Symbol, facts: Facts) -> Worth:
    """What one unit is worth at the market's price."""
    reference = fresh_price(facts, parameters.ref_max_age_millis)
    factor, _, no_factor = _unit_factor(parameters.currency, symbol, facts)
    no_price = _no_price(parameters, symbol) if reference is None else None
    return Worth(
        price=None if reference is None else reference.price,
        factor=factor,
        inputs={} if reference is None else price_inputs(reference) | {"price": shown(reference.price)},
        missing=_both(no_price, no_factor),
    )


def _both(*missing: str | None) -> str | None:
    return " and ".join(each for each in missing if each is not None) or None


def _no_price(parameters: Valuation, symbol: Symbol) -> str:
    return f"a price of {symbol} that is at most {parameters.ref_max_age_millis} ms old"


def _worst_price(parameters: Valuation, command: CommandFacts, facts: Facts) -> _Factor:
    """The highest price at which one unit may trade, by what is known; None if neither order nor market has one."""
    terms = command.terms
    if _is_bounded(command):
        assert terms.limit_price is not None
        limit = shown(terms.limit_price)
        return terms.limit_price, {"limit_price": limit, "price": limit}, None
    own = {"limit_price": terms.limit_price, "stop_price": terms.stop_price}
    inputs = {name: shown(price) for name, price in own.items() if price is not None}
    known = [price for price in own.values() if price is not None]
    missing = None
    reference = fresh_price(facts, parameters.ref_max_age_millis)
    if reference is None:
        missing = _no_price(parameters, command.symbol)
        inputs["reference"] = "not known"
    else:
        known.append(reference.price)
        inputs |= price_inputs(reference)
    if not known:
        return None, inputs, missing
    price = moved(max(known), parameters.buffer_percent)
    return price, inputs | {"buffer_percent": shown(parameters.buffer_percent), "price": shown(price)}, missing


def _unit_factor(currency: str, symbol: Symbol, facts: Facts) -> _Factor:
    """What a price is multiplied by to value one unit in the currency; None without a current exchange rate.

    An unknown instrument is taken for a share quoted in the currency.
    """
    instrument = facts.instrument
    if instrument is None:
        inputs = {"instrument": f"not known, taken for a share quoted in {currency}"}
        return Decimal(1), inputs, f"the instrument {symbol}, with its currency and multiplier"
    inputs = {"multiplier": shown(instrument.multiplier)}
    if instrument.quote_currency == currency:
        return instrument.multiplier, inputs, None
    rate = facts.rates_of_exchange.get((instrument.quote_currency, currency))
    if rate is None or facts.now - rate.as_of > timedelta(days=EXCHANGE_RATE_DAYS):
        pair = f"{instrument.quote_currency} to {currency}"
        return None, inputs, f"a rate of exchange from {pair} that is at most {EXCHANGE_RATE_DAYS} days old"
    inputs |= {
        "quote_currency": instrument.quote_currency,
        "exchange_rate": shown(rate.rate),
        "exchange_rate_as_of": utc_text(rate.as_of),
    }
    return product(instrument.multiplier, rate.rate), inputs, None


def _judge_value(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    """If the known inputs make the value too high, the command is refused; otherwise on_missing decides on the rest."""
    assert isinstance(rule.parameters, OrderValue)
    limit, currency = rule.parameters.value, rule.parameters.currency
    worth = worst_worth(rule.parameters, command, facts)
    unknown = None
    if worth.missing is not None:
        unknown = unavailable(rule, command, Comparison.AT_MOST, shown(limit), worth.missing)
    if worth.one is None:
        assert unknown is not None
        return unknown
    observed = product(command.terms.quantity, worth.one)
    if unknown is not None and observed <= limit:
        return unknown

    def would_pass() -> str:
        if unknown is not None and unknown.would_pass is not None:
            # The missing input could make any quantity too valuable.
            return f"a value of at most {shown(limit)} {currency}, {unknown.would_pass}"
        return affordable(limit, worth, currency)

    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit),
        shown(observed),
        passes=observed <= limit,
        would_pass=would_pass,
        headroom=WIDE.subtract(limit, observed),
        inputs=worth.inputs,
    )


def affordable(limit: Decimal, worth: Worth, currency: str) -> str:
    """The would_pass sentence with the largest quantity, whole, or below one with as many places as orders have."""
    value = f"a value of at most {shown(limit)} {currency}"
    one, price = worth.one, worth.price
    if one is None or price is None or one <= 0:
        return value
    quantity = WIDE.divide_int(limit, one)
    if not quantity:
        quantity = WIDE.divide(limit, one).quantize(Decimal(1).scaleb(-PLACES_MAX), ROUND_DOWN, WIDE)
    return f"{value}: at {shown(price)} a quantity of at most {shown(quantity)}" if quantity else value


@dataclass(frozen=True, slots=True)
class Collar:
    """How far a price may be from the reference, in percent: to the worse side, and if set to the better side."""

    up_percent: Decimal
    down_percent: Decimal
    passive_percent: Decimal | None = None
    spread_percent: Decimal | None = None
    ref_max_age_millis: int = REFERENCE_AGE_MILLIS


@dataclass(frozen=True, slots=True)
class _Bound:
    what: str
    comparison: Comparison
    limit: Decimal
    observed: Decimal

    @property
    def headroom(self) -> Decimal:
        spare = WIDE.subtract(self.limit, self.observed)
        return spare if self.comparison is Comparison.AT_MOST else WIDE.minus(spare)


def _bounds(collar: Collar, command: CommandFacts, reference: ReferencePrice) -> list[_Bound]:
    """Every comparison for an order with a price; the one that protects from a bad price comes first."""
    bounds, wide = [], collar.passive_percent
    limit_price, stop_price = command.terms.limit_price, command.terms.stop_price

    def above(what: str, observed: Decimal, percent: Decimal) -> _Bound:
        return _Bound(what, Comparison.AT_MOST, moved(reference.price, percent), observed)

    def below(what: str, observed: Decimal, percent: Decimal) -> _Bound:
        return _Bound(what, Comparison.AT_LEAST, moved(reference.price, WIDE.minus(percent)), observed)

    buys = command.order_side is OrderSide.BUY
    if limit_price is not None:
        worst = (above, collar.up_percent) if buys else (below, collar.down_percent)
        bounds.append(worst[0]("limit_price", limit_price, worst[1]))
        if wide is not None:
            bounds.append((below if buys else above)("limit_price", limit_price, wide))
    if stop_price is not None:
        # A stop price far from the market on either side is a typing error; passive_percent widens both sides.
        bounds.append(above("stop_price", stop_price, max(collar.up_percent, wide or Decimal(0))))
        bounds.append(below("stop_price", stop_price, max(collar.down_percent, wide or Decimal(0))))
    return bounds


def _spread(collar: Collar, reference: ReferencePrice) -> _Bound | None:
    """The limit on the spread, in percent of the mid price; None where it does not apply."""
    if collar.spread_percent is None or reference.bid is None or reference.ask is None:
        return None
    both = WIDE.add(reference.bid, reference.ask)
    limit = product(both, collar.spread_percent, Decimal("0.005"))
    return _Bound("spread", Comparison.AT_MOST, limit, WIDE.subtract(reference.ask, reference.bid))


def _judge_collar(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    assert isinstance(rule.parameters, Collar)
    collar = rule.parameters
    reference = fresh_price(facts, collar.ref_max_age_millis)
    if reference is None:
        missing = f"a price of {command.symbol} that is at most {collar.ref_max_age_millis} ms old"
        return unavailable(rule, command, Comparison.AT_MOST, None, missing)
    bounds = _bounds(collar, command, reference)
    if command.order_type is OrderType.MARKET:
        age = Decimal(max(0, -millis(reference.as_of - facts.now)))
        bounds.append(
            _spread(collar, reference)
            or _Bound("reference_age_millis", Comparison.AT_MOST, Decimal(collar.ref_max_age_millis), age)
        )
    failed = [bound for bound in bounds if bound.headroom < 0]
    bound = failed[0] if failed else bounds[0]
    inputs = price_inputs(reference) | {"judged": bound.what}
    if bound.what == "spread":
        assert reference.bid is not None
        assert reference.ask is not None
        inputs |= {"bid": shown(reference.bid), "ask": shown(reference.ask)}
    return found(
        rule,
        bound.comparison,
        shown(bound.limit),
        shown(bound.observed),
        passes=not failed,
        would_pass=" and ".join(
            f"a {each.what} of {each.comparison.lower().replace('_', ' ')} {shown(each.limit)}" for each in failed
        ),
        headroom=bound.headroom,
        inputs=inputs,
    )


VALUATION_FORMS: Final = {
    "currency": CURRENCY,
    "buffer_percent": percent(),
    "ref_max_age_millis": REFERENCE_AGE,
}
ORDER_VALUE_FORMS: Final = {"value": DECIMAL, **VALUATION_FORMS}
# A reference price that is too old is missing, and on_missing may allow that: no age is stricter than another.
NOTIONAL_MAX: Final = ControlKind(
    code="NOTIONAL_MAX",
    summary="Refuses an order of a higher value: quantity, worst price and multiplier, in the currency.",
    shape=Shape(
        OrderValue,
        ORDER_VALUE_FORMS,
    ),
    unit=Unit.VALUE,
    judge=_judge_value,
    needs=value_needs,
    tightens=by_parameter(value=lower, currency=incomparable, buffer_percent=higher, ref_max_age_millis=incomparable),
)
PRICE_COLLAR: Final = ControlKind(
    code="PRICE_COLLAR",
    summary="Refuses a price that is further from the reference price, on the side where it would trade badly.",
    shape=Shape(
        Collar,
        {
            "up_percent": percent(),
            "down_percent": percent(100),
            "passive_percent": percent(),
            "spread_percent": percent(),
            "ref_max_age_millis": REFERENCE_AGE,
        },
    ),
    unit=Unit.PERCENT,
    judge=_judge_collar,
    needs=lambda _parameters, _command: frozenset({Need.PRICE}),
    tightens=by_parameter(
        up_percent=lower,
        down_percent=lower,
        # Setting it limits passive prices and widens the range of stop prices.
        passive_percent=lower,
        spread_percent=lower_or_none,
        ref_max_age_millis=incomparable,
    ),
)
