"""What one report changes of an intent: its order, the actions it settles, and notices for the event log."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, ActionState
from openbell_server.domain.orders.action_outcomes import Settlement, after_report
from openbell_server.domain.orders.broker_reports import ExecutionChange, OrderReport
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import FillsTotalled, Order
from openbell_server.domain.orders.order_reports import apply_report, notices
from openbell_server.domain.orders.order_terms import Terms


class Command(Protocol):
    """An action that a report may settle."""

    @property
    def action_type(self) -> ActionType: ...

    @property
    def state(self) -> ActionState: ...

    @property
    def replacement(self) -> Terms | None:
        """The terms of a REPLACE."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The order after a report, the settlement of each action in turn, and notices for the event log."""

    order: Order
    settlements: list[Settlement | None]
    notices: list[str]


def after_report_of_intent(
    order: Order,
    actions: Sequence[Command],
    report: OrderReport,
    counted: FillsTotalled,
    news: Collection[ExecutionChange] = (),
) -> Reported:
    """Apply a report; `counted` totals all executions, `news` are changes of executions not seen before."""
    # At most one command of an intent is in flight.
    replaced = next((a.replacement for a in actions if a.replacement and a.state in PAST_DOOR), None)
    after = apply_report(order, report, counted, replaced)
    settlements: list[Settlement | None] = []
    in_flight = replaced
    is_newer = report.terms_version is not None and report.terms_version > order.terms_version
    # Of several replaces with equal terms, the last one.
    matching = [action for action in actions if action.replacement == report.terms is not None]
    shown = matching[-1] if matching and is_newer else None
    for action in actions:
        settlement = after_report(
            action.action_type, action.state, after, report, action.replacement, shown=action is shown
        )
        if settlement is not None and settlement.state is not None:
            after = settlement.order
            in_flight = None if action.replacement else in_flight
        settlements.append(settlement)
    return Reported(after, settlements, notices(order, after, news, replaced, in_flight))
