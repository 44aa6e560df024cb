"""Judge a queued command once more under the account's lock, just before it is written to the broker."""

from openbell_server.application.ports.execution import AccountTransaction, TrackedAction
from openbell_server.domain.control_facts import Asked, Gate
from openbell_server.domain.controls import DoorFacts, switched_off
from openbell_server.domain.evaluate_controls import evaluate, exemption, needs, speaking
from openbell_server.domain.receipts import Evaluation, asked_facts, receipt_of


async def refusal(transaction: AccountTransaction, action: TrackedAction, *, account_ready: bool) -> str | None:
    """Why it may not pass the door; None if it may. What a rule refuses is explained by a receipt."""
    door = action.at_door
    if door is None:
        return None
    off = switched_off(door, account_ready=account_ready)
    if off is not None:
        return off
    asked = _asked(action, door)
    book = await transaction.rule_book((door.organization_epoch, door.account_epoch))
    rules = speaking(book, asked, Gate.DOOR)
    facts = await transaction.facts_at_door(action, asked, rules, needs(rules, asked))
    findings = evaluate(book, asked, facts, Gate.DOOR)
    refused = next((finding.reason for finding in findings if finding.refuses), None)
    if refused is not None:
        evaluation = Evaluation(
            command=asked_facts(asked),
            evaluated_at=facts.now,
            findings=findings,
            gate=Gate.DOOR,
            exempt=exemption(asked),
            watched_only=book.is_watched_only,
        )
        await transaction.keep_refusal(action, receipt_of(book, evaluation))
    return refused


def _asked(action: TrackedAction, door: DoorFacts) -> Asked:
    """The command as the rules see it: a REPLACE beside the order as it is now."""
    order = action.order
    return Asked(
        action_type=action.action_type,
        symbol=action.terms.symbol,
        order_side=action.terms.order_side,
        order_type=action.terms.order_type,
        terms=action.replacement or order.terms,
        environment=door.environment,
        key_id=door.key_id,
        before=None if action.replacement is None else order.terms,
        filled_quantity=order.filled_quantity,
        age=door.now - door.queued_at,
        deadline=door.deadline,
    )
