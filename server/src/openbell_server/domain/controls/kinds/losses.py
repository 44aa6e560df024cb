"""A limit on the loss of a day: once it is exceeded, an account may only reduce, or do nothing, until the day ends."""

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.findings import Comparison, Finding, Scope
from openbell_server.domain.controls.kind import ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.exposure import reducible
from openbell_server.domain.controls.kinds.numbers import WIDE, shown
from openbell_server.domain.controls.kinds.times import ZONE, utc_text
from openbell_server.domain.controls.parameters import CURRENCY, DECIMAL, Shape, choice
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, incomparable, lower, ranked
from openbell_server.domain.money.losses import LossMark
from openbell_server.domain.orders.order_terms import OrderSide
from openbell_server.domain.time_zones import DEFAULT_ZONE


class MeasuredFrom(StrEnum):
    """What a loss of the day is counted from."""

    # The profit when the day began.
    OPENING = "OPENING"
    # The highest profit of the day.
    HIGHEST = "HIGHEST"


class OnBreach(StrEnum):
    """What an account may still do after the limit was exceeded, as with the switch of that name."""

    REDUCE_ONLY = "REDUCE_ONLY"
    HALTED = "HALTED"


@dataclass(frozen=True, slots=True)
class LossLimit:
    value: Decimal
    currency: str
    measured_from: MeasuredFrom = MeasuredFrom.OPENING
    on_breach: OnBreach = OnBreach.REDUCE_ONLY
    # None: that of the account.
    timezone: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        """What its loss is measured in: currency and time zone."""
        return self.currency, self.timezone or DEFAULT_ZONE

    def lost(self, mark: LossMark) -> Decimal:
        return mark.lost_from_opening if self.measured_from is MeasuredFrom.OPENING else mark.lost_from_highest


def _judge(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    limit = rule.parameters
    assert isinstance(limit, LossLimit)
    mark = facts.losses.get(limit.place)
    if mark is None or not mark.is_current(facts.now):
        missing = "a measurement of the account's profit that is at most 30 seconds old"
        return unavailable(rule, command, Comparison.AT_MOST, shown(limit.value), missing)
    loss = limit.lost(mark)
    inputs = {
        "currency": limit.currency,
        "timezone": limit.place[1],
        "measured_from": str(limit.measured_from),
        "loss": shown(loss),
        "day": mark.day.isoformat(),
        "profit_as_of": utc_text(mark.as_of),
    }
    if loss > limit.value and _may_reduce(limit, command):
        line = reducible(rule, command, facts, denies_missing=True)
        return replace(line, inputs={**line.inputs, **inputs, "loss_limit": shown(limit.value)})
    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit.value),
        shown(loss),
        passes=loss <= limit.value,
        would_pass=f"once the day after {mark.day} has begun, or the limit is at least {shown(loss)} {limit.currency}",
        headroom=WIDE.subtract(limit.value, loss),
        inputs=inputs,
    )


def _needs(limit: LossLimit, command: CommandFacts) -> frozenset[Need]:
    return frozenset({Need.LOSSES, Need.EXPOSURE} if _may_reduce(limit, command) else {Need.LOSSES})


def _may_reduce(limit: LossLimit, command: CommandFacts) -> bool:
    return limit.on_breach is OnBreach.REDUCE_ONLY and command.order_side is not OrderSide.SELL_SHORT


LOSS_MAX: Final = ControlKind(
    code="LOSS_MAX",
    summary="Refuses every order, or every one that does not only reduce, once the account has lost more on this day.",
    shape=Shape(
        LossLimit,
        {
            "value": DECIMAL,
            "currency": CURRENCY,
            "measured_from": choice(MeasuredFrom),
            "on_breach": choice(OnBreach),
            "timezone": ZONE,
        },
    ),
    unit=Unit.VALUE,
    counts=True,
    judge=_judge,
    needs=_needs,
    # The loss is that of an account. At KEY it stops commands of the key in an account that has lost that much.
    scopes=frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.ACCOUNT, Scope.KEY}),
    tightens=by_parameter(
        value=lower,
        currency=incomparable,
        # From the highest profit a loss is never smaller.
        measured_from=ranked(MeasuredFrom.OPENING, MeasuredFrom.HIGHEST),
        on_breach=ranked(OnBreach.REDUCE_ONLY, OnBreach.HALTED),
        timezone=incomparable,
    ),
)
