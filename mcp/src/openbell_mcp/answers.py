"""What the tools answer: sentences in `answer`, and the records that they are about."""

from typing import Any, Final

from openbell.async_client import AsyncClient
from openbell.errors import OpenbellError
from openbell.models import Action
from openbell_mcp.marking import marked, plain
from openbell_mcp.receipts import refusing, sentences_of

Answer = dict[str, Any]

DO_NOT_REPEAT: Final = (
    "Do not place it again, and do not cancel and replace it to be sure: Openbell queries the broker, and only evidence"
    " or an operator ends this state, never a timer. Count the order as open, and report it to the person you work for."
)


def order_of(action: Action) -> Answer:
    """The command and the state of its order."""
    return {"order": marked(action)}


def terms_of(action: Action) -> str:
    prices = [("limit", action.limit_price), ("stop", action.stop_price)]
    at = "".join(f" {name} {price:f}" for name, price in prices if price is not None)
    return f"{action.order_side} {action.quantity:f} {plain(action.symbol)} {action.order_type}{at}"


def is_unknown(action: Action) -> bool:
    return action.status == "UNKNOWN" or (action.execution is not None and action.execution.certainty == "UNKNOWN")


def state_of(action: Action) -> str:
    """The state of the order in sentences; an unknown one with what will decide it."""
    execution = action.execution
    if is_unknown(action):
        settles_by = execution.unknown.settles_by if execution is not None and execution.unknown is not None else None
        evidence = f" It ends by this evidence: {plain(settles_by)}" if settles_by else ""
        return (
            "The outcome is UNKNOWN: the command was sent, or may have been sent, and no answer shows what the broker"
            f" did with it.{evidence} {DO_NOT_REPEAT}"
        )
    if execution is None:
        return f"The command is {action.status}."
    filled = f"{execution.filled_quantity:f} filled"
    if execution.average_price is not None:
        filled += f" at {execution.average_price:f} on average"
    end = "This is final." if execution.is_final else "It is not final: call wait_for_order."
    why = f" The reason has the code {plain(action.reason.code)}." if action.reason is not None else ""
    return f"The order is {execution.status}, with {filled} and {execution.leaves_quantity:f} open. {end}{why}"


async def recorded(client: AsyncClient, action: Action, idempotency_key: str) -> Answer:
    """The answer to a command that was recorded; a receipt that cannot be read now does not change that."""
    if action.replayed:
        first = "An earlier call with this idempotency_key had recorded this command; this call recorded nothing new."
    else:
        first = "The command is recorded, and Openbell sends it to the broker once."
    answer: Answer = {
        "answer": f"{first} {action.action_type} of {terms_of(action)}: {action.status}. "
        "Call wait_for_order with the intent_id to learn how it ends.",
        "idempotency_key": idempotency_key,
        "intent_id": action.intent_id,
        "receipt_id": action.receipt_id,
    }
    try:
        receipt = await client.receipt(action.receipt_id)
    except OpenbellError as error:
        answer["receipt"] = [f"The command is recorded, but its receipt cannot be read now: {plain(error.message)}"]
    else:
        answer["receipt"] = sentences_of(receipt.receipt)
    return answer | order_of(action)


def evaluated(verdict: str, body: dict[str, Any]) -> Answer:
    """The answer to a dry run."""
    if verdict == "PASSED":
        summary = "It would pass now. Nothing was recorded or sent, and every rule is checked again when you place it."
    else:
        summary = f"It would be refused now by {', '.join(refusing(body))}. Nothing was recorded or sent."
    return {"answer": summary, "verdict": verdict, "receipt": sentences_of(body)}
