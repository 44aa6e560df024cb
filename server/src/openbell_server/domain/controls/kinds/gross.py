"""A limit on what an account holds and may come to hold in all symbols together, long and short added up."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Exposure, Facts, Holding, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Scope
from openbell_server.domain.controls.kind import ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.numbers import NOTHING, WIDE, at_work, product, shown
from openbell_server.domain.controls.kinds.prices import ORDER_VALUE_FORMS, OrderValue, Worth, unit_worth, worst_worth
from openbell_server.domain.controls.parameters import Shape
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, higher, incomparable, lower
from openbell_server.domain.orders.order_terms import EXACT, OrderSide


@dataclass(frozen=True, slots=True)
class GrossValue(OrderValue):
    """The highest value; the buffer is added to the price of the command as in OrderValue, to no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Others:
    """The value of the other symbols, as far as it is known."""

    value: Decimal
    missing: str | None


def largest(position: Decimal, buys: Decimal, sells: Decimal) -> Decimal:
    """The largest position, long or short, that open orders can lead to."""
    return max(EXACT.abs(EXACT.add(position, buys)), EXACT.abs(EXACT.subtract(position, sells)))


def _after(command: CommandFacts, exposure: Exposure, position: Decimal) -> Decimal:
    more = at_work(command)
    buys, sells = exposure.working_buys, exposure.working_sells
    if command.order_side is OrderSide.BUY:
        return largest(position, EXACT.add(buys, more), sells)
    return largest(position, buys, EXACT.add(sells, more))


def _other_symbols(parameters: GrossValue, facts: Facts, holdings: tuple[Holding, ...]) -> _Others:
    value, missing = NOTHING, []
    for holding in holdings:
        worth = unit_worth(
            parameters, holding.symbol, replace(facts, price=holding.price, instrument=holding.instrument)
        )
        if worth.one is not None:
            value = WIDE.add(value, product(holding.quantity, worth.one))
        if worth.missing is not None:
            missing.append(worth.missing)
    return _Others(value=value, missing=" and ".join(missing[:3]) or None)


def _judge(rule: Rule, command: CommandFacts, facts: Facts) -> Finding | None:
    """An order that cannot make the position larger, long or short, passes whatever the account holds."""
    parameters = rule.parameters
    assert isinstance(parameters, GrossValue)
    limit, exposure, holdings = parameters.value, facts.exposure, facts.others
    if exposure is None or exposure.position is None or holdings is None:
        missing = "the positions of the account as reported by the broker"
        return unavailable(rule, command, Comparison.AT_MOST, shown(limit), missing)
    position = exposure.position
    quantity = _after(command, exposure, position)
    if quantity <= largest(position, exposure.working_buys, exposure.working_sells):
        return None
    others, worth = _other_symbols(parameters, facts, tuple(holdings)), _own_worth(parameters, command, facts)
    observed = WIDE.add(others.value, product(quantity, worth.one or NOTHING))
    passes = observed <= limit
    missing = " and ".join(each for each in (worth.missing, others.missing) if each is not None)
    if passes and missing:
        return unavailable(rule, command, Comparison.AT_MOST, shown(limit), missing)

    def would_pass() -> str:
        if missing:
            return f"a value of at most {shown(limit)} {parameters.currency} in all symbols, once there is {missing}"
        hint = f"no {command.order_side} of {command.symbol} until the account holds less"
        if worth.one:
            fits = WIDE.divide_int(WIDE.subtract(limit, others.value), worth.one)
            left = WIDE.subtract(fits, WIDE.subtract(quantity, at_work(command)))
            if left > 0:
                hint = f"a quantity of at most {shown(WIDE.add(left, command.filled_quantity))}"
        return hint

    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit),
        shown(observed),
        passes=passes,
        would_pass=would_pass,
        headroom=WIDE.subtract(limit, observed),
        inputs=worth.inputs | {"position": shown(position), "largest": shown(quantity), "others": shown(others.value)},
    )


def _own_worth(parameters: GrossValue, command: CommandFacts, facts: Facts) -> Worth:
    """The higher one of the order's worst price and the market's: what is held is worth that."""
    worst = worst_worth(parameters, command, facts)
    market = unit_worth(parameters, command.symbol, facts)
    prices = [price for price in (worst.price, market.price) if price is not None]
    price = max(prices, default=None)
    inputs = market.inputs | worst.inputs | ({} if price is None else {"price": shown(price)})
    return replace(worst, price=price, inputs=inputs, missing=worst.missing or market.missing)


# Of a key or a symbol it would limit only some of the orders that make up the value.
_SCOPES: Final = frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.ACCOUNT})
GROSS_MAX: Final = ControlKind(
    code="GROSS_MAX",
    summary="Refuses an order with which the value of all positions of an account, long and short, could be higher.",
    shape=Shape(GrossValue, ORDER_VALUE_FORMS),
    unit=Unit.VALUE,
    counts=True,
    judge=_judge,
    needs=lambda _parameters, _command: frozenset({Need.EXPOSURE, Need.OTHERS, Need.PRICE, Need.INSTRUMENT}),
    scopes=_SCOPES,
    tightens=by_parameter(value=lower, currency=incomparable, buffer_percent=higher, ref_max_age_millis=incomparable),
)
