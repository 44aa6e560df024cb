"""Controls of what an account has and may get: orders that wait or are in doubt count as if they worked."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from openbell_server.domain.control_facts import Asked, Exposure, Facts, Need
from openbell_server.domain.control_kinds import NOTHING, ControlKind, found, unavailable
from openbell_server.domain.control_numbers import at_work, shown
from openbell_server.domain.control_parameters import Parameters
from openbell_server.domain.control_rules import Rule
from openbell_server.domain.control_times import utc_text
from openbell_server.domain.findings import Comparison, Finding, Unsaid, Word
from openbell_server.domain.intents import ActionType
from openbell_server.domain.orders import EXACT, OrderSide

OPEN_ORDERS_MOST: Final = 1_000_000
_EXPOSURE: Final = frozenset({Need.EXPOSURE})
_OPEN_SHAPE: Final = '{"count": 1 to 1000000, "per"?: "account" | "symbol" | "side"}, per account if it is left out'
_POSITION_SHAPE: Final = '{"quantity": "…"}, a decimal string'


class Per(StrEnum):
    """Whose open orders are counted: the account's, those of the symbol, or those of the symbol on one side."""

    ACCOUNT = "account"
    SYMBOL = "symbol"
    SIDE = "side"


@dataclass(frozen=True, slots=True)
class OpenOrders:
    """How many orders may be open."""

    count: int
    per: Per = Per.ACCOUNT


@dataclass(frozen=True, slots=True)
class Position:
    """How much of one symbol an account may be long or short."""

    quantity: Decimal


def _word(asked: Asked) -> str:
    return f"the position of {asked.symbol} by the broker's word"


def _position_inputs(position: Decimal, exposure: Exposure, asked: Asked) -> dict[str, str]:
    inputs = {
        "position": shown(position),
        "working_buys": shown(exposure.working_buys),
        "working_sells": shown(exposure.working_sells),
        "quantity_at_work": shown(at_work(asked)),
    }
    if exposure.position_as_of is not None:
        inputs["position_as_of"] = utc_text(exposure.position_as_of)
    return inputs


def reducible(
    rule: Rule, asked: Asked, facts: Facts, *, code: str | None = None, denies_missing: bool = False
) -> Finding:
    """Whether a SELL sells no more than is held and not yet being sold; a BUY, no more than is short likewise."""
    exposure = facts.exposure
    if exposure is None or exposure.position is None:
        return unavailable(
            rule, asked, Comparison.AT_MOST, None, _word(asked), code=code, denies=True if denies_missing else None
        )
    if asked.order_side is OrderSide.BUY:
        left = EXACT.subtract(EXACT.minus(exposure.position), exposure.working_buys)
    else:
        left = EXACT.subtract(exposure.position, exposure.working_sells)
    limit, observed = max(Decimal(0), left), at_work(asked)
    if limit:
        would_pass = f"a quantity of at most {shown(EXACT.add(limit, asked.filled_quantity))}"
    else:
        would_pass = f"no {asked.order_side} of {asked.symbol}: nothing is left that it would reduce"
    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit),
        shown(observed),
        passes=observed <= limit,
        would_pass=would_pass,
        headroom=EXACT.subtract(limit, observed),
        inputs=_position_inputs(exposure.position, exposure, asked),
        code=code,
    )


def _decode_open(parameters: Mapping[str, Any]) -> OpenOrders:
    read = Parameters(parameters, _OPEN_SHAPE).only({"count"}, {"per"})
    per = read.optional("per", lambda name: read.one_of(name, Per), Per.ACCOUNT)
    return OpenOrders(read.whole("count", 1, OPEN_ORDERS_MOST), per)


def _open_needs(_: OpenOrders, asked: Asked) -> frozenset[Need]:
    return _EXPOSURE if asked.action_type is ActionType.CREATE else NOTHING


def _judge_open(rule: Rule, asked: Asked, facts: Facts) -> Word | None:
    assert isinstance(rule.parameters, OpenOrders)
    if asked.action_type is not ActionType.CREATE:
        # The order is open already.
        return None
    limit, per = rule.parameters.count, rule.parameters.per
    if facts.exposure is None:
        return unavailable(rule, asked, Comparison.AT_MOST, limit, "the count of open orders")
    counts = {
        Per.ACCOUNT: facts.exposure.open_orders,
        Per.SYMBOL: facts.exposure.open_orders_of_symbol,
        Per.SIDE: facts.exposure.open_orders_of_side,
    }
    observed = counts[per] + 1

    def tell() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            limit,
            observed,
            passes=observed <= limit,
            would_pass=f"once at most {limit - 1} orders of the {_owner(per, asked)} are open",
            headroom=Decimal(limit - observed),
            inputs={"per": str(per), "open_orders": str(counts[per])},
        )

    return Unsaid(observed <= limit, tell)


def _owner(per: Per, asked: Asked) -> str:
    return {
        Per.ACCOUNT: "account",
        Per.SYMBOL: f"symbol {asked.symbol}",
        Per.SIDE: f"symbol {asked.symbol} on the side {asked.order_side}",
    }[per]


def _decode_position(parameters: Mapping[str, Any]) -> Position:
    return Position(Parameters(parameters, _POSITION_SHAPE).only({"quantity"}).decimal("quantity"))


def _judge_position(rule: Rule, asked: Asked, facts: Facts) -> Word:
    """The worst case on the side that the command adds to, long for a BUY and short for the others.

    It is below zero where all of it only reduces a position of the other side.
    """
    assert isinstance(rule.parameters, Position)
    limit, exposure = rule.parameters.quantity, facts.exposure
    position = None if exposure is None else exposure.position
    if exposure is None or position is None:
        return unavailable(rule, asked, Comparison.AT_MOST, shown(limit), _word(asked))
    if asked.order_side is OrderSide.BUY:
        before = EXACT.add(position, exposure.working_buys)
    else:
        before = EXACT.subtract(exposure.working_sells, position)
    observed = EXACT.add(before, at_work(asked))

    def would_pass() -> str:
        left = EXACT.subtract(limit, before)
        if left > 0:
            return f"a quantity of at most {shown(EXACT.add(left, asked.filled_quantity))}"
        return f"no {asked.order_side} of {asked.symbol} until its position or what works on it is smaller"

    def tell() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            shown(limit),
            shown(observed),
            passes=observed <= limit,
            would_pass=would_pass,
            headroom=EXACT.subtract(limit, observed),
            inputs=_position_inputs(position, exposure, asked),
        )

    return Unsaid(observed <= limit, tell)


OPEN_ORDERS_MAX: Final = ControlKind(code="OPEN_ORDERS_MAX", decode=_decode_open, judge=_judge_open, needs=_open_needs)
POSITION_MAX: Final = ControlKind(
    code="POSITION_MAX",
    decode=_decode_position,
    judge=_judge_position,
    needs=lambda _parameters, _asked: _EXPOSURE,
)
