"""What one report makes of an intent: its order, those of its actions that it settles, and what is worth a look."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from openbell_server.domain.action_lifecycle import PAST_DOOR, ActionState
from openbell_server.domain.action_outcomes import Settlement, after_report
from openbell_server.domain.broker_orders import ExecutionChange, OrderReport
from openbell_server.domain.intents import ActionType
from openbell_server.domain.order_aggregate import Counted, Order
from openbell_server.domain.order_reports import apply_report, notices
from openbell_server.domain.orders import Terms


class Command(Protocol):
    """An action as a report may settle it."""

    @property
    def action_type(self) -> ActionType:
        """What was asked for."""

    @property
    def state(self) -> ActionState:
        """Where it stands."""

    @property
    def replacement(self) -> Terms | None:
        """What a replace asks for."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The order after a report, what it settles of each action in turn, and what is worth a look."""

    order: Order
    settlements: list[Settlement | None]
    notices: list[str]


def after_report_of_intent(
    order: Order,
    actions: Sequence[Command],
    report: OrderReport,
    counted: Counted,
    news: Collection[ExecutionChange] = (),
) -> Reported:
    """What follows from a report; counted is what all executions come to, news are changes of them not told before."""
    # One command of an intent is in flight at a time.
    replaced = next((a.replacement for a in actions if a.replacement and a.state in PAST_DOOR), None)
    after = apply_report(order, report, counted, replaced)
    settlements: list[Settlement | None] = []
    in_flight = replaced
    is_newer = report.terms_version is not None and report.terms_version > order.terms_version
    # Of several replaces that ask for the same, the last.
    asked_so = [action for action in actions if action.replacement == report.terms is not None]
    shown = asked_so[-1] if asked_so and is_newer else None
    for action in actions:
        settlement = after_report(
            action.action_type, action.state, after, report, action.replacement, shown=action is shown
        )
        if settlement is not None and settlement.state is not None:
            after = settlement.order
            in_flight = None if action.replacement else in_flight
        settlements.append(settlement)
    return Reported(after, settlements, notices(order, after, news, replaced, in_flight))
