"""A limit on what orders may cost: the buying power that the broker reported, less what was accepted since."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Exposure, Facts, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Scope
from openbell_server.domain.controls.kind import ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.numbers import NOTHING, WIDE, at_work, product, shown
from openbell_server.domain.controls.kinds.prices import BUFFER_PERCENT, VALUATION_FORMS, Worth, worst_worth
from openbell_server.domain.controls.kinds.times import utc_text
from openbell_server.domain.controls.parameters import AMOUNT, REFERENCE_AGE_MILLIS, Shape
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, higher, incomparable
from openbell_server.domain.orders.order_terms import EXACT, OrderSide


@dataclass(frozen=True, slots=True)
class FreeFunds:
    """The buying power of accounts whose balances are in the currency; orders are valued as by OrderValue."""

    currency: str
    # What must be left of the buying power.
    keep: Decimal = NOTHING
    buffer_percent: Decimal = BUFFER_PERCENT
    ref_max_age_millis: int = REFERENCE_AGE_MILLIS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """What a command adds to what orders may cost, as far as the prices are known."""

    added: Decimal
    # What the order of a REPLACE costs already, and the part of the quantity that only closes a position.
    before: Decimal
    closing: Decimal
    worth: Worth


def reserved_amount(rule: Rule, command: CommandFacts, facts: Facts) -> Decimal:
    """What the command needs of the buying power if it is accepted, as far as the prices are known."""
    assert isinstance(rule.parameters, FreeFunds)
    assert facts.exposure is not None, "a command is accepted with its exposure"
    cost = _cost(rule.parameters, command, facts, facts.exposure)
    return NOTHING if cost is None else cost.added


def _opens(command: CommandFacts, exposure: Exposure) -> Decimal:
    """How much of the quantity that may still fill would open or enlarge a position; an unknown one counts as none."""
    position, buys = exposure.position or NOTHING, command.order_side is OrderSide.BUY
    # What this side may close, less what its open orders close already.
    held = EXACT.minus(position) if buys else position
    closes = max(NOTHING, EXACT.subtract(held, exposure.working_buys if buys else exposure.working_sells))
    return max(NOTHING, EXACT.subtract(at_work(command), closes))


def _cost(parameters: FreeFunds, command: CommandFacts, facts: Facts, exposure: Exposure) -> _Cost | None:
    """None if the command only closes a position."""
    quantity = _opens(command, exposure)
    if not quantity:
        return None
    worth, before = worst_worth(parameters, command, facts), NOTHING
    if command.before is not None:
        old = replace(command, terms=command.before)
        before = product(_opens(old, exposure), worst_worth(parameters, old, facts).one or NOTHING)
    return _Cost(
        added=max(NOTHING, WIDE.subtract(product(quantity, worth.one or NOTHING), before)),
        before=before,
        closing=EXACT.subtract(at_work(command), quantity),
        worth=worth,
    )


def _judge(rule: Rule, command: CommandFacts, facts: Facts) -> Finding | None:
    """An order that only closes a position costs nothing, whatever the buying power is."""
    parameters, exposure = rule.parameters, facts.exposure
    assert isinstance(parameters, FreeFunds)
    if exposure is None or exposure.position is None:
        return unavailable(
            rule, command, Comparison.AT_MOST, None, "the position of the account as reported by the broker"
        )
    cost, funds = _cost(parameters, command, facts, exposure), facts.funds
    if cost is None:
        return None
    if funds is None or funds.currency != parameters.currency or not funds.is_current(facts.now):
        missing = f"a report of the account's buying power in {parameters.currency} that is at most 60 seconds old"
        return unavailable(rule, command, Comparison.AT_MOST, None, missing)
    limit = WIDE.subtract(WIDE.subtract(funds.buying_power, funds.reserved), parameters.keep)
    passes = cost.added <= limit
    if passes and cost.worth.missing is not None:
        return unavailable(rule, command, Comparison.AT_MOST, shown(limit), cost.worth.missing)
    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit),
        shown(cost.added),
        passes=passes,
        would_pass=lambda: _would_pass(cost, limit, parameters.currency, command),
        headroom=WIDE.subtract(limit, cost.added),
        inputs=cost.worth.inputs
        | {
            "buying_power": shown(funds.buying_power),
            "reserved": shown(funds.reserved),
            "keep": shown(parameters.keep),
            "balances_as_of": utc_text(funds.as_of),
        },
    )


def _would_pass(cost: _Cost, limit: Decimal, currency: str, command: CommandFacts) -> str:
    left = WIDE.add(limit, cost.before)
    one = cost.worth.one
    if cost.worth.missing is not None or not one:
        return f"an order that costs at most {shown(max(left, NOTHING))} {currency}, once its price is known"
    fits = WIDE.add(max(NOTHING, WIDE.divide_int(left, one)), cost.closing)
    if fits <= 0:
        return f"once the account has at least {shown(WIDE.subtract(cost.added, limit))} {currency} more"
    return f"a quantity of at most {shown(WIDE.add(fits, command.filled_quantity))}"


BUYING_POWER: Final = ControlKind(
    code="BUYING_POWER",
    summary="Refuses an order that may cost more than is left of the buying power that the broker reported.",
    shape=Shape(FreeFunds, VALUATION_FORMS | {"keep": AMOUNT}),
    unit=Unit.VALUE,
    counts=True,
    judge=_judge,
    needs=lambda _parameters, _command: frozenset({Need.EXPOSURE, Need.FUNDS, Need.PRICE, Need.INSTRUMENT}),
    # The buying power is that of an account.
    scopes=frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.ACCOUNT}),
    tightens=by_parameter(keep=higher, currency=incomparable, buffer_percent=higher, ref_max_age_millis=incomparable),
)
