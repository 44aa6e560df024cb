"""Settle an action with an unknown outcome by the decision of an operator who checked it at the broker."""

from dataclasses import dataclass, replace

from openbell_server.application.execution.record_outcomes import record
from openbell_server.application.ports.account_transaction import AccountTransaction, TrackedAction
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import ActionId, IntentId
from openbell_server.domain.orders.action_lifecycle import ActionState, Reason
from openbell_server.domain.orders.action_outcomes import SETTLED_BY_OPERATOR, after_operator
from openbell_server.domain.orders.intents import ActionType


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of an action at the broker, and the operator's evidence."""

    ends_as: ActionState
    because: str
    # Set if the broker has the order.
    broker_order_id: str | None = None


async def settle_by_hand(
    transaction: AccountTransaction, intent_id: IntentId, action_id: ActionId, verdict: Verdict
) -> TrackedAction:
    """Settle the action and return it as it was before; an action already in that state does not change."""
    ends_as, broker_order_id = verdict.ends_as, verdict.broker_order_id
    action = next(each for each in await transaction.of_intents([intent_id]) if each.action_id == action_id)
    if action.state is ends_as:
        return action
    if action.state is not ActionState.UNKNOWN:
        raise OperatorError(
            f"The action is {action.state}: only one that is UNKNOWN can be settled, because for any other the platform"
            " knows, or is about to find out."
        )
    if ends_as is ActionState.ACKED and action.action_type is ActionType.CREATE and broker_order_id is None:
        raise OperatorError(
            "An acknowledged order has an id at its broker: name it with --broker-order-id, so that it can be followed"
            " and cancelled."
        )
    if ends_as is not ActionState.ACKED and broker_order_id is not None:
        raise OperatorError(
            f"--broker-order-id goes with --as acked only: an order that the broker has is not {ends_as}."
        )
    found = broker_order_id or next(reversed(action.order.broker_order_ids), "")
    settlement = after_operator(action.action_type, action.order, ends_as, found, action.replacement)
    await record(transaction, action, replace(settlement, reason=Reason(SETTLED_BY_OPERATOR, None, verdict.because)))
    return action
