"""The tools: names, descriptions, arguments, and whether they change something."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import Tool, ToolAnnotations

from openbell.async_client import AsyncClient
from openbell_mcp import inputs, orders, reads
from openbell_mcp.answers import Answer


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool."""

    description: str
    arguments: type[inputs.Arguments]
    run: Callable[[AsyncClient, Any], Awaitable[Answer]]
    # Whether it only reads; else whether it can do harm that cannot be undone.
    reads: bool = True
    destroys: bool = False

    def as_tool(self, name: str) -> Tool:
        return Tool(
            name=name,
            description=self.description,
            input_schema=inputs.input_schema(self.arguments),
            annotations=ToolAnnotations(
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                # The same call twice changes nothing more: commands have idempotency keys.
                idempotent_hint=True,
                open_world_hint=True,
            ),
        )


TOOLS: Final = {
    "whoami": Entry(
        "Your key, its environment and permissions, your account, and every control in force.",
        inputs.Nothing,
        reads.whoami,
    ),
    "check_order": Entry(
        "Dry run: would this order pass every control now? Verdict, receipt and headroom; nothing is recorded or sent.",
        inputs.NewOrder,
        orders.check_order,
    ),
    "place_order": Entry(
        "Place an order. It is recorded, then sent to the broker once. If the answer is lost or is outcome_unknown,"
        " call again with the same idempotency_key: it cannot be placed twice.",
        inputs.PlaceOrder,
        orders.place_order,
        reads=False,
        destroys=True,
    ),
    "replace_order": Entry(
        "Change a working order; quantity is the new total, including what has filled. Give all terms of its type.",
        inputs.ReplaceOrder,
        orders.replace_order,
        reads=False,
        destroys=True,
    ),
    "cancel_order": Entry(
        "Cancel a working order. It may still fill until the cancel is confirmed: call wait_for_order.",
        inputs.CancelOrder,
        orders.cancel_order,
        reads=False,
        destroys=True,
    ),
    "wait_for_order": Entry(
        "Wait until an order ends, at most 30 s. UNKNOWN means that nobody knows yet what the broker did: do not place"
        " the order again.",
        inputs.WaitForOrder,
        orders.wait_for_order,
    ),
    "order": Entry("One order by its intent_id: its terms, state and fills.", inputs.OneOrder, orders.order),
    "orders": Entry("Orders of your account, the newest first.", inputs.SomeOrders, orders.orders),
    "positions": Entry("What your account holds, with cost and value.", inputs.Nothing, reads.positions),
    "balances": Entry(
        "Cash, equity, buying power and margin, as the broker reported them.", inputs.Nothing, reads.balances
    ),
    "events_since": Entry(
        "Events of your account after an event number: account_seq of positions, next_after_seq of an earlier call, or"
        " 0 for the oldest.",
        inputs.EventsSince,
        reads.events_since,
    ),
    "explain": Entry(
        "A receipt in sentences: which rules refused or passed a command, their limits, what was observed, what would"
        " pass.",
        inputs.OneReceipt,
        reads.explain,
    ),
    "receipts": Entry(
        "Receipts of one order, or without intent_id those of the account's refused commands.",
        inputs.SomeReceipts,
        reads.receipts,
    ),
    "halt": Entry(
        "Stop trading on your account, if your key may; with cancel_working also cancel its working orders. Only a"
        " person can resume.",
        inputs.Halt,
        reads.halt,
        reads=False,
        destroys=True,
    ),
}
