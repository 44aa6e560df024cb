"""Generates docs/lifecycle.md from the tables of the two state machines and the notices."""

from typing import Final

from openbell_server.domain.orders import action_lifecycle, order_aggregate
from openbell_server.domain.orders.order_aggregate import Standing
from openbell_server.domain.orders.order_reports import NOTICES

_INTRODUCTION: Final = """# Lifecycle

After this page you know which state of an action or an order may follow which, and why. There are two state machines:
each command is an **action** with a state, and all commands of an intent change one **order**. `make generate` writes
this page from the tables that the code uses; a step that is not in them raises an error. [Intents](intents.md)
describes how to send commands.

## Actions

"""
_ORDERS: Final = """
No step leads back to QUEUED, and an action passes the door once. A timer never ends UNKNOWN: only the broker's evidence
or an operator does. A settled action changes only if the broker later shows that its state was wrong; then its reason
is `SIGHTED_LATE`.

## Orders

An order consists of its terms (quantity, prices, time in force, with a version that counts changes), the sum of its
executions, whether it exists at the broker (its *standing*: NONE, WORKING or CLOSED), how it ended, which command is
pending, and whether an outcome is unknown. `status` is derived from these facts, in this order: UNKNOWN while it is not
known whether the order exists, then PENDING_CANCEL, PENDING_REPLACE or PENDING_NEW, then how it ended, then
PARTIALLY_FILLED or NEW.

"""
_RACES: Final = """
These rules resolve races between commands and reports, in whatever order they arrive, late or twice:

- Fills count in every standing, each once. The filled quantity is always the sum of the valid executions.
- If a broker reports only the filled quantity and the average price, each increase of the total is one execution, at
  the price that matches the average. A smaller total is an old report and has no effect.
- A completely filled order is FILLED, whatever else was reported. Any other end is final, also if an execution is
  busted later; an order that was FILLED works again then.
- An end that includes fills not yet reported waits for them: the order stays open, and the broker is queried.
- An old report never reopens an order. Closed → working happens in three cases: the broker shows an order that we had
  closed without ever seeing it at the broker, an execution of a filled order is busted, or the broker accepts a replace
  that raises the quantity of a filled order.
- Only one command of an order is in flight at a time. During a replace, an order that is filled by its old quantity
  only is not FILLED yet, and fills up to the new quantity are no overfill.
- Of two terms the later version counts. A broker with versions reports them in its reports and in its answers to
  replaces.

## Notices

An order event lists unusual facts in `notices`; if it has no other `reason`, the reason is the first notice.

| Notice | What it means | What to do |
|---|---|---|
"""


def order_lifecycle_page() -> str:
    notices = [f"| `{name}` | {notice.meaning} | {notice.remedy} |\n" for name, notice in NOTICES.items()]
    return _INTRODUCTION + _actions() + _ORDERS + _orders() + _RACES + "".join(notices)


def _actions() -> str:
    rows = [f"| {before} | {after} | {cause} |\n" for (before, after), cause in action_lifecycle.STEPS.items()]
    return _drawing("actions", "The states of an action") + "| From | To | Because |\n|---|---|---|\n" + "".join(rows)


def _orders() -> str:
    """The table shows in which standing each event may occur, and what follows."""
    rows = []
    for event, row in order_aggregate.STEPS.items():
        following = ([each for each in Standing if each in row.get(before, ())] for before in Standing)
        cells = " | ".join(", ".join(standings) or "refused" for standings in following)
        rows.append(f"| {event.__name__} | {(event.__doc__ or '').splitlines()[0]} | {cells} |\n")
    return (
        _drawing("orders", "The standings of an order")
        + "| Event | What happened | when NONE | when WORKING | when CLOSED |\n|---|---|---|---|---|\n"
        + "".join(rows)
    )


def _drawing(name: str, title: str) -> str:
    return f"![{title}](images/lifecycle-{name}.svg)\n\n"
