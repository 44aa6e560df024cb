"""A limit on the value of all orders that are accepted in a day; it counts what was accepted, not what was filled."""

from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate, Need
from openbell_server.domain.controls.findings import Comparison, Finding
from openbell_server.domain.controls.kind import ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.kinds.numbers import NOTHING, WIDE, product, shown
from openbell_server.domain.controls.kinds.prices import (
    ORDER_VALUE_FORMS,
    OrderValue,
    Worth,
    affordable,
    value_needs,
    worst_worth,
)
from openbell_server.domain.controls.kinds.times import ZONE, utc_text
from openbell_server.domain.controls.parameters import Shape
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import by_parameter, higher, incomparable, lower
from openbell_server.domain.time_zones import DEFAULT_ZONE, zone_of


@dataclass(frozen=True, slots=True)
class DayValue(OrderValue):
    # None: that of the account.
    timezone: str | None = None

    def day_of(self, instant: datetime) -> date | None:
        """The local date; None if this server does not know the zone."""
        zone = zone_of(self.timezone or DEFAULT_ZONE)
        return None if zone is None else instant.astimezone(zone).date()

    def starts_at(self, day: date) -> datetime:
        """The first instant of a local date."""
        return datetime.combine(day, time(), zone_of(self.timezone or DEFAULT_ZONE))


def added_value(rule: Rule, command: CommandFacts, facts: Facts) -> Decimal:
    """What the command adds to the day's sum if it is accepted, as far as the prices are known."""
    assert isinstance(rule.parameters, DayValue)
    now, before = _worths(rule.parameters, command, facts)
    return _added(command, now, before)


def has_value(rule: Rule, command: CommandFacts, facts: Facts) -> bool:
    """Whether every price is known that the value depends on."""
    assert isinstance(rule.parameters, DayValue)
    return all(each is None or each.missing is None for each in _worths(rule.parameters, command, facts))


def _worths(parameters: DayValue, command: CommandFacts, facts: Facts) -> tuple[Worth, Worth | None]:
    """What a unit of the order is worth, and was before a REPLACE."""
    before = None
    if command.before is not None:
        before = worst_worth(parameters, replace(command, terms=command.before), facts)
    return worst_worth(parameters, command, facts), before


def _value(quantity: Decimal, worth: Worth) -> Decimal:
    return NOTHING if worth.one is None else product(quantity, worth.one)


def _before(command: CommandFacts, before: Worth | None) -> Decimal:
    return NOTHING if before is None or command.before is None else _value(command.before.quantity, before)


def _added(command: CommandFacts, now: Worth, before: Worth | None) -> Decimal:
    """The whole value of a CREATE; what a REPLACE adds to its order."""
    return max(NOTHING, WIDE.subtract(_value(command.terms.quantity, now), _before(command, before)))


def _judge(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    parameters = rule.parameters
    assert isinstance(parameters, DayValue)
    limit = parameters.value
    accepted, day = facts.day_values.get((rule.scope, rule.subject)), parameters.day_of(facts.now)
    if accepted is None or day is None:
        return unavailable(rule, command, Comparison.AT_MOST, shown(limit), "the value that was accepted today")
    now, before = _worths(parameters, command, facts)
    observed = WIDE.add(accepted, _added(command, now, before))
    passes = observed <= limit
    if passes and now.missing is not None:
        return unavailable(rule, command, Comparison.AT_MOST, shown(limit), now.missing)

    def would_pass() -> str:
        left = WIDE.subtract(limit, accepted)
        next_day = f"from {utc_text(parameters.starts_at(day + timedelta(days=1)))} on, when the next day begins"
        if left <= 0:
            return next_day
        if now.missing is not None:
            # The missing input could make any quantity too valuable.
            return f"a value of at most {shown(left)} {parameters.currency}, once there is {now.missing}; or {next_day}"
        return f"{affordable(WIDE.add(left, _before(command, before)), now, parameters.currency)}; or {next_day}"

    return found(
        rule,
        Comparison.AT_MOST,
        shown(limit),
        shown(observed),
        passes=passes,
        would_pass=would_pass,
        headroom=WIDE.subtract(limit, observed),
        inputs=now.inputs | {"day": day.isoformat(), "accepted_today": shown(accepted)},
    )


DAY_NOTIONAL_MAX: Final = ControlKind(
    code="DAY_NOTIONAL_MAX",
    summary="Refuses an order with which the value of all orders accepted on this day would be higher.",
    shape=Shape(DayValue, ORDER_VALUE_FORMS | {"timezone": ZONE}),
    unit=Unit.VALUE,
    counts=True,
    judge=_judge,
    needs=lambda parameters, command: value_needs(parameters, command) | {Need.DAY_VALUE},
    # It counts requests, as RATE_ORDERS does: what was accepted is not counted again at the door.
    gates=frozenset({Gate.ACCEPT}),
    tightens=by_parameter(
        value=lower,
        currency=incomparable,
        buffer_percent=higher,
        ref_max_age_millis=incomparable,
        timezone=incomparable,
    ),
)
