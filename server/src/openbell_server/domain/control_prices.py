"""Controls of what an order may cost: its value, and how far its prices may be from the market's."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any, Final

from openbell_server.domain.control_facts import Asked, Facts, Need, ReferencePrice
from openbell_server.domain.control_kinds import ControlKind, found, unavailable
from openbell_server.domain.control_numbers import WIDE, fresh_price, millis, moved, price_inputs, product, shown
from openbell_server.domain.control_parameters import REFERENCE_AGE_MILLIS, Parameters
from openbell_server.domain.control_rules import Rule
from openbell_server.domain.control_times import utc_text
from openbell_server.domain.findings import Comparison, Finding
from openbell_server.domain.orders import PLACES_MAX, OrderSide, OrderType

BUFFER_PERCENT: Final = Decimal(5)
_WHOLE: Final = Decimal(100)
_VALUE_SHAPE: Final = (
    '{"value": "…", "currency": "USD", "buffer_percent"?: "…", "ref_max_age_millis"?: 1 to 3600000}, with decimal '
    "strings; 5 percent and 15000 if they are left out"
)
_COLLAR_SHAPE: Final = (
    '{"up_percent": "…", "down_percent": "…", "passive_percent"?: "…", "spread_percent"?: "…", '
    '"ref_max_age_millis"?: 1 to 3600000}, with decimal strings; 15000 if it is left out'
)


@dataclass(frozen=True, slots=True)
class OrderValue:
    """What one order may be worth, in one currency; the buffer is for what a BUY without a limit may cost more."""

    value: Decimal
    currency: str
    buffer_percent: Decimal = BUFFER_PERCENT
    ref_max_age_millis: int = REFERENCE_AGE_MILLIS


def _decode_value(parameters: Mapping[str, Any]) -> OrderValue:
    read = Parameters(parameters, _VALUE_SHAPE).only({"value", "currency"}, {"buffer_percent", "ref_max_age_millis"})
    return OrderValue(
        read.decimal("value"),
        read.currency("currency"),
        read.optional("buffer_percent", read.percent, BUFFER_PERCENT),
        read.reference_age(),
    )


def _value_needs(_: OrderValue, asked: Asked) -> frozenset[Need]:
    is_priced = asked.order_type is not OrderType.MARKET
    return frozenset({Need.INSTRUMENT}) if is_priced else frozenset({Need.INSTRUMENT, Need.PRICE})


def _price_of(parameters: OrderValue, asked: Asked, facts: Facts) -> tuple[Decimal, dict[str, str]] | None:
    """What one unit may cost, and what that is known from; None without a fresh reference."""
    terms = asked.terms
    if terms.limit_price is not None:
        return terms.limit_price, {"price": shown(terms.limit_price)}
    if terms.stop_price is not None:
        price, inputs = terms.stop_price, {"stop_price": shown(terms.stop_price)}
    else:
        reference = fresh_price(facts, parameters.ref_max_age_millis)
        if reference is None:
            return None
        price, inputs = reference.price, price_inputs(reference)
    if asked.order_side is OrderSide.BUY:
        price = moved(price, parameters.buffer_percent)
        inputs["buffer_percent"] = shown(parameters.buffer_percent)
    inputs["price"] = shown(price)
    return price, inputs


def _judge_value(rule: Rule, asked: Asked, facts: Facts) -> Finding:
    """What nobody knows the currency and multiplier of is judged as a share that is quoted in the rule's currency.

    If it is worth too much even so, it is refused; if not, an input is missing and on_missing decides.
    """
    assert isinstance(rule.parameters, OrderValue)
    parameters, instrument = rule.parameters, facts.instrument
    limit, currency = parameters.value, parameters.currency

    def without(missing: str) -> Finding:
        return unavailable(rule, asked, Comparison.AT_MOST, shown(limit), missing)

    priced = _price_of(parameters, asked, facts)
    if priced is None:
        return without(f"a price of {asked.symbol} that is at most {parameters.ref_max_age_millis} ms old")
    price, inputs = priced
    inputs["currency"] = currency
    one = price
    if instrument is None:
        inputs["instrument"] = f"not known, taken for a share quoted in {currency}"
    else:
        one = product(price, instrument.multiplier)
        inputs["multiplier"] = shown(instrument.multiplier)
        if instrument.quote_currency != currency:
            rate = facts.rates_of_exchange.get((instrument.quote_currency, currency))
            if rate is None:
                return without(f"a rate of exchange from {instrument.quote_currency} to {currency}")
            one = product(one, rate.rate)
            inputs |= {
                "quote_currency": instrument.quote_currency,
                "exchange_rate": shown(rate.rate),
                "exchange_rate_as_of": utc_text(rate.as_of),
            }
    observed = product(asked.terms.quantity, one)
    would_pass = _affordable(limit, one, price, currency)
    if instrument is None:
        unknown = without(f"the instrument {asked.symbol}, with its currency and multiplier")
        if observed <= limit:
            return unknown
        if unknown.would_pass is not None:
            would_pass += f", once the instrument {asked.symbol} is known"
    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit),
        shown(observed),
        passes=observed <= limit,
        would_pass=would_pass,
        headroom=WIDE.subtract(limit, observed),
        inputs=inputs,
    )


def _affordable(limit: Decimal, one: Decimal, price: Decimal, currency: str) -> str:
    """The sentence with the largest quantity: whole ones, or what is less than one to as many places as orders have."""
    value = f"a value of at most {shown(limit)} {currency}"
    if one <= 0:
        return value
    quantity = WIDE.divide_int(limit, one)
    if not quantity:
        quantity = WIDE.divide(limit, one).quantize(Decimal(1).scaleb(-PLACES_MAX), ROUND_DOWN, WIDE)
    return f"{value}: at {shown(price)} a quantity of at most {shown(quantity)}" if quantity else value


@dataclass(frozen=True, slots=True)
class Collar:
    """How many percent a price may be from the reference: towards a worse one, and if set towards a better one."""

    up_percent: Decimal
    down_percent: Decimal
    passive_percent: Decimal | None = None
    spread_percent: Decimal | None = None
    ref_max_age_millis: int = REFERENCE_AGE_MILLIS


@dataclass(frozen=True, slots=True)
class _Bound:
    """One comparison of a collar."""

    what: str
    comparison: Comparison
    limit: Decimal
    observed: Decimal

    @property
    def headroom(self) -> Decimal:
        spare = WIDE.subtract(self.limit, self.observed)
        return spare if self.comparison is Comparison.AT_MOST else WIDE.minus(spare)


def _decode_collar(parameters: Mapping[str, Any]) -> Collar:
    read = Parameters(parameters, _COLLAR_SHAPE).only(
        {"up_percent", "down_percent"}, {"passive_percent", "spread_percent", "ref_max_age_millis"}
    )

    def percent(name: str) -> Decimal | None:
        return read.percent(name) if name in parameters else None

    return Collar(
        read.percent("up_percent"),
        read.percent("down_percent", _WHOLE),
        percent("passive_percent"),
        percent("spread_percent"),
        read.reference_age(),
    )


def _bounds(collar: Collar, asked: Asked, reference: ReferencePrice) -> list[_Bound]:
    """Every comparison that an order with a price must pass, the one that protects from a bad price first."""
    bounds, wide = [], collar.passive_percent
    limit_price, stop_price = asked.terms.limit_price, asked.terms.stop_price

    def above(what: str, observed: Decimal, percent: Decimal) -> _Bound:
        return _Bound(what, Comparison.AT_MOST, moved(reference.price, percent), observed)

    def below(what: str, observed: Decimal, percent: Decimal) -> _Bound:
        return _Bound(what, Comparison.AT_LEAST, moved(reference.price, WIDE.minus(percent)), observed)

    buys = asked.order_side is OrderSide.BUY
    if limit_price is not None:
        worst = (above, collar.up_percent) if buys else (below, collar.down_percent)
        bounds.append(worst[0]("limit_price", limit_price, worst[1]))
        if wide is not None:
            bounds.append((below if buys else above)("limit_price", limit_price, wide))
    if stop_price is not None:
        # Far from the market on either side is a slip of the hand; a wide band widens both.
        bounds.append(above("stop_price", stop_price, max(collar.up_percent, wide or Decimal(0))))
        bounds.append(below("stop_price", stop_price, max(collar.down_percent, wide or Decimal(0))))
    return bounds


def _spread(collar: Collar, reference: ReferencePrice) -> _Bound | None:
    """How far bid and ask may be apart, of the price between them; None where that is not to be judged."""
    if collar.spread_percent is None or reference.bid is None or reference.ask is None:
        return None
    both = WIDE.add(reference.bid, reference.ask)
    limit = product(both, collar.spread_percent, Decimal("0.005"))
    return _Bound("spread", Comparison.AT_MOST, limit, WIDE.subtract(reference.ask, reference.bid))


def _judge_collar(rule: Rule, asked: Asked, facts: Facts) -> Finding:
    assert isinstance(rule.parameters, Collar)
    collar = rule.parameters
    reference = fresh_price(facts, collar.ref_max_age_millis)
    if reference is None:
        missing = f"a price of {asked.symbol} that is at most {collar.ref_max_age_millis} ms old"
        return unavailable(rule, asked, Comparison.AT_MOST, None, missing)
    bounds = _bounds(collar, asked, reference)
    if asked.order_type is OrderType.MARKET:
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
            f"a {each.what} of {each.comparison.replace('_', ' ')} {shown(each.limit)}" for each in failed
        ),
        headroom=bound.headroom,
        inputs=inputs,
    )


NOTIONAL_MAX: Final = ControlKind(code="NOTIONAL_MAX", decode=_decode_value, judge=_judge_value, needs=_value_needs)
PRICE_COLLAR: Final = ControlKind(
    code="PRICE_COLLAR",
    decode=_decode_collar,
    judge=_judge_collar,
    needs=lambda _parameters, _asked: frozenset({Need.PRICE}),
)
