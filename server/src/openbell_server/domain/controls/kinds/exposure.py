"""Limits on open orders and positions; waiting and unknown orders count as working."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Exposure, Facts, Need
from openbell_server.domain.controls.findings import Comparison, Finding, LazyFinding, RuleResult
from openbell_server.domain.controls.kind import NOTHING, ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.numbers import at_work, shown
from openbell_server.domain.controls.kinds.times import utc_text
from openbell_server.domain.controls.parameters import DECIMAL, Shape, choice, whole
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, lower, ranked
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import EXACT, OrderSide

OPEN_ORDERS_MOST: Final = 1_000_000
_EXPOSURE: Final = frozenset({Need.EXPOSURE})


class Per(StrEnum):
    """Which open orders are counted: of the account, of the symbol, or of the symbol on one side."""

    ACCOUNT = "ACCOUNT"
    SYMBOL = "SYMBOL"
    SIDE = "SIDE"


@dataclass(frozen=True, slots=True)
class OpenOrders:
    count: int
    per: Per = Per.ACCOUNT


@dataclass(frozen=True, slots=True)
class Position:
    """The largest long or short position in one symbol."""

    quantity: Decimal


@dataclass(frozen=True, slots=True)
class SelfMatch:
    """It has no parameters."""


def _missing_position(command: CommandFacts) -> str:
    return f"the position of {command.symbol} as reported by the broker"


def _position_inputs(position: Decimal, exposure: Exposure, command: CommandFacts) -> dict[str, str]:
    inputs = {
        "position": shown(position),
        "working_buys": shown(exposure.working_buys),
        "working_sells": shown(exposure.working_sells),
        "quantity_at_work": shown(at_work(command)),
    }
    if exposure.position_as_of is not None:
        inputs["position_as_of"] = utc_text(exposure.position_as_of)
    return inputs


def reducible(
    rule: Rule, command: CommandFacts, facts: Facts, *, code: str | None = None, denies_missing: bool = False
) -> Finding:
    """Whether a SELL sells no more than is held and not yet being sold, or a BUY no more than is short likewise."""
    exposure = facts.exposure
    if exposure is None or exposure.position is None:
        return unavailable(
            rule,
            command,
            Comparison.AT_MOST,
            None,
            _missing_position(command),
            code=code,
            denies=True if denies_missing else None,
        )
    if command.order_side is OrderSide.BUY:
        left = EXACT.subtract(EXACT.minus(exposure.position), exposure.working_buys)
    else:
        left = EXACT.subtract(exposure.position, exposure.working_sells)
    limit, observed = max(Decimal(0), left), at_work(command)
    if limit:
        would_pass = f"a quantity of at most {shown(EXACT.add(limit, command.filled_quantity))}"
    else:
        would_pass = f"no {command.order_side} of {command.symbol}: nothing is left that it would reduce"
    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit),
        shown(observed),
        passes=observed <= limit,
        would_pass=would_pass,
        headroom=EXACT.subtract(limit, observed),
        inputs=_position_inputs(exposure.position, exposure, command),
        code=code,
    )


def _open_needs(_: OpenOrders, command: CommandFacts) -> frozenset[Need]:
    return _EXPOSURE if command.action_type is ActionType.CREATE else NOTHING


def _judge_open(rule: Rule, command: CommandFacts, facts: Facts) -> RuleResult | None:
    assert isinstance(rule.parameters, OpenOrders)
    if command.action_type is not ActionType.CREATE:
        # A REPLACE opens no further order.
        return None
    limit, per = rule.parameters.count, rule.parameters.per
    if facts.exposure is None:
        return unavailable(rule, command, Comparison.AT_MOST, limit, "the count of open orders")
    counts = {
        Per.ACCOUNT: facts.exposure.open_orders,
        Per.SYMBOL: facts.exposure.open_orders_of_symbol,
        Per.SIDE: facts.exposure.open_orders_of_side,
    }
    observed = counts[per] + 1

    def finding() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            limit,
            observed,
            passes=observed <= limit,
            would_pass=f"once at most {limit - 1} orders of the {_owner(per, command)} are open",
            headroom=Decimal(limit - observed),
            inputs={"per": str(per), "open_orders": str(counts[per])},
        )

    return LazyFinding(observed <= limit, finding)


def _owner(per: Per, command: CommandFacts) -> str:
    return {
        Per.ACCOUNT: "account",
        Per.SYMBOL: f"symbol {command.symbol}",
        Per.SIDE: f"symbol {command.symbol} on the side {command.order_side}",
    }[per]


def _judge_position(rule: Rule, command: CommandFacts, facts: Facts) -> RuleResult:
    """The worst case on the command's side: long for a BUY, short for the others.

    It is negative where the whole quantity only reduces a position of the other side.
    """
    assert isinstance(rule.parameters, Position)
    limit, exposure = rule.parameters.quantity, facts.exposure
    position = None if exposure is None else exposure.position
    if exposure is None or position is None:
        return unavailable(rule, command, Comparison.AT_MOST, shown(limit), _missing_position(command))
    if command.order_side is OrderSide.BUY:
        before = EXACT.add(position, exposure.working_buys)
    else:
        before = EXACT.subtract(exposure.working_sells, position)
    observed = EXACT.add(before, at_work(command))

    def would_pass() -> str:
        left = EXACT.subtract(limit, before)
        if left > 0:
            return f"a quantity of at most {shown(EXACT.add(left, command.filled_quantity))}"
        return f"no {command.order_side} of {command.symbol} until its position or what works on it is smaller"

    def finding() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            shown(limit),
            shown(observed),
            passes=observed <= limit,
            would_pass=would_pass,
            headroom=EXACT.subtract(limit, observed),
            inputs=_position_inputs(position, exposure, command),
        )

    return LazyFinding(observed <= limit, finding)


def could_trade(*, is_buy: bool, limit: Decimal | None, other_limit: Decimal | None) -> bool:
    """Whether an order could trade with one of the other side; without a limit it trades at any price."""
    if limit is None or other_limit is None:
        return True
    return other_limit <= limit if is_buy else other_limit >= limit


def _judge_match(rule: Rule, command: CommandFacts, facts: Facts) -> RuleResult:
    exposure = facts.exposure
    if exposure is None:
        return unavailable(rule, command, Comparison.AT_MOST, 0, "the account's open orders")
    orders, price = exposure.matching_orders, exposure.matching_price
    other, which = ("SELL", "below") if command.order_side is OrderSide.BUY else ("BUY", "above")

    def would_pass() -> str:
        if price is None or command.terms.limit_price is None:
            return f"once no {other} of {command.symbol} is open that could trade with it"
        return f"a limit_price {which} {shown(price)}"

    def finding() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            0,
            orders,
            passes=orders == 0,
            would_pass=would_pass,
            inputs={} if price is None else {"nearest_limit_price": shown(price)},
        )

    return LazyFinding(orders == 0, finding)


OPEN_ORDERS_MAX: Final = ControlKind(
    code="OPEN_ORDERS_MAX",
    summary="Refuses a CREATE that would make more open orders; queued and unknown ones count.",
    shape=Shape(OpenOrders, {"count": whole(1, OPEN_ORDERS_MOST), "per": choice(Per)}),
    unit=Unit.ORDERS,
    counts=True,
    judge=_judge_open,
    needs=_open_needs,
    # The account's orders are at least as many as those of one symbol.
    tightens=by_parameter(count=lower, per=ranked(Per.SIDE, Per.SYMBOL, Per.ACCOUNT)),
)
POSITION_MAX: Final = ControlKind(
    code="POSITION_MAX",
    summary="Refuses an order with which the position in the symbol could become larger, long or short.",
    shape=Shape(Position, {"quantity": DECIMAL}),
    unit=Unit.UNITS,
    counts=True,
    judge=_judge_position,
    needs=lambda _parameters, _command: _EXPOSURE,
    tightens=by_parameter(quantity=lower),
)
SELF_MATCH: Final = ControlKind(
    code="SELF_MATCH",
    summary="Refuses an order that could trade with an open order of the same account on the other side.",
    shape=Shape(SelfMatch, {}),
    counts=True,
    judge=_judge_match,
    needs=lambda _parameters, _command: _EXPOSURE,
    tightens=by_parameter(),
)
