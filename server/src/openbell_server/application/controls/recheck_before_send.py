"""Evaluate a queued command again under the account's lock, just before it is sent to the broker."""

from decimal import Decimal

from openbell_server.application.ports.account_transaction import AccountTransaction, TrackedAction
from openbell_server.domain.controls.evaluate import (
    applicable_rules,
    evaluate,
    exemption,
    may_protect,
    needs,
    with_position,
)
from openbell_server.domain.controls.facts import CommandFacts, Gate
from openbell_server.domain.controls.receipts import Evaluation, command_facts, receipt_of
from openbell_server.domain.controls.symbol_controls import DoorFacts, switched_off


async def recheck(transaction: AccountTransaction, action: TrackedAction, *, account_ready: bool) -> str | None:
    """Why the command must not be sent, or None. If a rule refuses it, a receipt is stored."""
    door = action.at_door
    if door is None:
        return None
    off = switched_off(door, account_ready=account_ready)
    if off is not None:
        return off
    asked = _asked(action, door)
    if may_protect(asked):
        held = await transaction.held_positions()
        position = None if held.as_of is None else held.quantities.get(asked.symbol, Decimal(0))
        asked = with_position(asked, position)
    book = await transaction.rule_book((door.organization_epoch, door.account_epoch))
    rules = applicable_rules(book, asked, Gate.DOOR)
    facts = await transaction.facts_at_door(action, asked, rules, needs(rules, asked))
    findings = evaluate(book, asked, facts, Gate.DOOR)
    refused = next((finding.reason for finding in findings if finding.refuses), None)
    if refused is not None:
        evaluation = Evaluation(
            # Only this text of a refusal is hashed, so it must identify the command.
            command=command_facts(asked) | {"intent_id": str(action.intent_id), "seq": action.seq},
            evaluated_at=facts.now,
            findings=findings,
            gate=Gate.DOOR,
            exempt=exemption(asked),
            watched_only=book.is_watched_only,
        )
        await transaction.keep_refusal(action, receipt_of(book, evaluation))
    return refused


def _asked(action: TrackedAction, door: DoorFacts) -> CommandFacts:
    order = action.order
    return CommandFacts(
        action_type=action.action_type,
        symbol=action.terms.symbol,
        order_side=action.terms.order_side,
        order_type=action.terms.order_type,
        terms=action.replacement or order.terms,
        environment=door.environment,
        api_key_id=door.api_key_id,
        before=None if action.replacement is None else order.terms,
        filled_quantity=order.filled_quantity,
        age=door.now - door.queued_at,
        deadline=door.deadline,
    )
