"""Controls of commands that come again or too fast. They count what was asked, so only the accept gate has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from openbell_server.domain.control_facts import Asked, Facts, Gate, Need
from openbell_server.domain.control_kinds import NOTHING, ControlKind, found, unavailable
from openbell_server.domain.control_numbers import count_since
from openbell_server.domain.control_parameters import Parameters
from openbell_server.domain.control_rules import Rule
from openbell_server.domain.control_times import utc_text
from openbell_server.domain.findings import Comparison, Finding, Unsaid, Word
from openbell_server.domain.intents import ActionType

DUPLICATE_MILLIS: Final = 1_000
DUPLICATE_MILLIS_MAX: Final = 60_000
RATE_COUNT_MAX: Final = 1_000
RATE_MILLIS_MAX: Final = 3_600_000
_ACCEPT: Final = frozenset({Gate.ACCEPT})
_DUPLICATES: Final = frozenset({Need.DUPLICATES})
_RATE: Final = frozenset({Need.RATE})
_DUPLICATE_SHAPE: Final = '{"window_millis"?: 1 to 60000}, 1000 if it is left out'
_RATE_SHAPE: Final = '{"count": 1 to 1000, "window_millis": 1 to 3600000}'


@dataclass(frozen=True, slots=True)
class Window:
    """For how long an order counts as the same again."""

    window_millis: int = DUPLICATE_MILLIS


@dataclass(frozen=True, slots=True)
class SubmitRate:
    """How many commands may come in any stretch of so many milliseconds."""

    count: int
    window_millis: int


def _decode_duplicate(parameters: Mapping[str, Any]) -> Window:
    read = Parameters(parameters, _DUPLICATE_SHAPE).only(set(), {"window_millis"})
    return Window(
        read.optional("window_millis", lambda name: read.whole(name, 1, DUPLICATE_MILLIS_MAX), DUPLICATE_MILLIS)
    )


def _may_be_duplicate(asked: Asked) -> bool:
    return asked.action_type is ActionType.CREATE and not asked.allow_duplicate


def _duplicate_needs(_: Window, asked: Asked) -> frozenset[Need]:
    return _DUPLICATES if _may_be_duplicate(asked) else NOTHING


def _judge_duplicate(rule: Rule, asked: Asked, facts: Facts) -> Word | None:
    assert isinstance(rule.parameters, Window)
    if not _may_be_duplicate(asked):
        return None
    window = rule.parameters.window_millis
    if facts.equal_orders is None:
        return unavailable(rule, asked, Comparison.AT_MOST, 0, "the list of equal orders")
    equal = facts.equal_orders
    observed = count_since(equal, facts.now, window)

    def tell() -> Finding:
        inputs, again = {"window_millis": str(window)}, ""
        if equal:
            inputs["newest_equal_order_at"] = utc_text(equal[0])
            again = f", or the same one from {utc_text(equal[0] + timedelta(milliseconds=window))} on"
        return found(
            rule,
            Comparison.AT_MOST,
            0,
            observed,
            passes=observed == 0,
            would_pass=f'an order that differs, one with "allow_duplicate": true{again}',
            inputs=inputs,
        )

    return Unsaid(observed == 0, tell)


def _decode_rate(parameters: Mapping[str, Any]) -> SubmitRate:
    read = Parameters(parameters, _RATE_SHAPE).only({"count", "window_millis"})
    return SubmitRate(read.whole("count", 1, RATE_COUNT_MAX), read.whole("window_millis", 1, RATE_MILLIS_MAX))


def _judge_rate(rule: Rule, asked: Asked, facts: Facts) -> Word:
    assert isinstance(rule.parameters, SubmitRate)
    limit, window = rule.parameters.count, rule.parameters.window_millis
    judged = facts.judged.get((rule.scope, rule.subject))
    if judged is None:
        return unavailable(rule, asked, Comparison.AT_MOST, limit, "the count of earlier commands")
    observed = count_since(judged, facts.now, window) + 1

    def would_pass() -> str:
        # When the oldest of those that use up the limit has left the window.
        free_at = judged[limit - 1] + timedelta(milliseconds=window)
        return f"from {utc_text(free_at)} on, if no other is judged until then"

    def tell() -> Finding:
        return found(
            rule,
            Comparison.AT_MOST,
            limit,
            observed,
            passes=observed <= limit,
            would_pass=would_pass,
            headroom=Decimal(limit - observed),
            inputs={"window_millis": str(window)},
        )

    return Unsaid(observed <= limit, tell)


DUPLICATE: Final = ControlKind(
    code="DUPLICATE", decode=_decode_duplicate, judge=_judge_duplicate, needs=_duplicate_needs, gates=_ACCEPT
)
RATE_ORDERS: Final = ControlKind(
    code="RATE_ORDERS",
    decode=_decode_rate,
    judge=_judge_rate,
    needs=lambda _parameters, _asked: _RATE,
    gates=_ACCEPT,
)
