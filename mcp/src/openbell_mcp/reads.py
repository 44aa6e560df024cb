"""The tools that read the caller, the account, its events and its receipts, and the one that halts."""

from collections import deque
from collections.abc import Awaitable
from typing import Any, Final

from openbell.async_client import AsyncClient
from openbell.errors import OpenbellError
from openbell.receipts.records import Receipt
from openbell_mcp.answers import Answer
from openbell_mcp.inputs import EventsSince, Halt, Nothing, OneReceipt, SomeReceipts
from openbell_mcp.marking import marked, plain
from openbell_mcp.receipts import refusing, sentences_of

# Receipts of refusals can only be read from the oldest on; this bounds one call.
REFUSALS_READ_MAX: Final = 1000


async def whoami(client: AsyncClient, _: Nothing) -> Answer:
    me = await client.operations.me()
    account = await _readable(client.accounts.show())
    controls = await _readable(client.effective_controls(api_key_id=me.principal_id))
    return {
        "answer": f"You trade with a key for {me.environment} accounts. Every limit is enforced by the platform;"
        " no tool can loosen one.",
        "me": marked(me),
        "account": account,
        "controls": controls,
    }


async def positions(client: AsyncClient, _: Nothing) -> Answer:
    found = await client.positions()
    summary = f"{len(found)} positions after event {found.account_seq}."
    if not found.complete:
        summary += " They are not complete."
    return {"answer": summary, "positions": marked(found)}


async def balances(client: AsyncClient, _: Nothing) -> Answer:
    found = await client.balances()
    if found.as_of is None:
        summary = "Nobody read the balances before: call again after a few seconds."
    else:
        summary = f"As the broker reported them at {found.as_of.isoformat()}."
    return {"answer": summary, "balances": marked(found)}


async def events_since(client: AsyncClient, given: EventsSince) -> Answer:
    events: list[Any] = []
    last = given.after_seq
    has_more = False
    async for event in client.event_history(after_seq=given.after_seq):
        if len(events) == given.limit:
            has_more = True
            break
        events.append(marked(event))
        last = event.account_seq
    more = "There are more" if has_more else "There are no more now"
    summary = f"{len(events)} events. {more}: continue with after_seq {last}."
    return {"answer": summary, "next_after_seq": last, "has_more": has_more, "events": events}


async def receipts(client: AsyncClient, given: SomeReceipts) -> Answer:
    newest: deque[Any] = deque(maxlen=given.limit)
    read = 0
    found = client.refusals() if given.intent_id is None else client.receipts_of_intent(given.intent_id)
    async for receipt in found:
        newest.append(_short(receipt))
        read += 1
        if read == REFUSALS_READ_MAX:
            break
    what = "refusals of the account" if given.intent_id is None else "receipts of the order"
    bound = f" Only the first {read} were read." if read == REFUSALS_READ_MAX else ""
    return {"answer": f"{len(newest)} of {read} {what}, the oldest first.{bound}", "receipts": list(newest)}


async def explain(client: AsyncClient, given: OneReceipt) -> Answer:
    receipt = await client.receipt(given.receipt_id)
    when = "before it was sent" if receipt.gate == "DOOR" else "when it was submitted"
    if receipt.verdict == "REFUSED":
        summary = f"The command was refused {when} by {', '.join(refusing(receipt.receipt))}."
    else:
        summary = f"The command passed every rule {when}."
    return {
        "answer": summary,
        "receipt": sentences_of(receipt.receipt),
        "command": marked(receipt.receipt.get("command")),
        **_short(receipt),
    }


async def halt(client: AsyncClient, given: Halt) -> Answer:
    switch = await client.set_switch("HALTED", reason=given.reason, cancel_working=given.cancel_working)
    cancels = " Its working orders are being cancelled." if switch.cancel_working else ""
    return {
        "answer": "The account is halted: no further command is sent to the broker, except cancels."
        f"{cancels} Only a person can resume trading.",
        "switch": marked(switch),
    }


def _short(receipt: Receipt) -> Answer:
    return {
        "receipt_id": receipt.id,
        "verdict": receipt.verdict,
        "gate": receipt.gate,
        "created_at": receipt.created_at.isoformat(),
        "intent_id": receipt.intent_id,
        "refused_by": refusing(receipt.receipt),
    }


async def _readable(reading: Awaitable[Any]) -> Any:  # noqa: ANN401 - any JSON
    """What was read, or why it cannot be."""
    try:
        return marked(await reading)
    except OpenbellError as error:
        return {"not_readable": plain(error.message)}
