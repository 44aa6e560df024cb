"""The page of the two machines, made from their tables: what may follow what, and what to do about surprises."""

from typing import Final

from openbell_server.domain import action_lifecycle, order_aggregate
from openbell_server.domain.order_aggregate import Standing
from openbell_server.domain.order_reports import NOTICES

_INTRODUCTION: Final = """# Lifecycle

Two small machines and nothing else: each command is an **action** with a state, and all commands of an intent act on
one **order**, which is stored as facts. This page is made by `make generate` from the tables that the code runs on; a
step that is not in them is refused loudly. How to send commands is in [intents](intents.md).

## Actions

"""
_ORDERS: Final = """
Nothing leads back to QUEUED, and the door is passed once. UNKNOWN is never ended by a timer: only the broker's evidence
or an operator ends it. A settled action changes only where the broker shows that we were wrong, or told wrong; then its
reason is `SIGHTED_LATE`.

## Orders

An order is what was asked for (quantity, prices, time in force, with a version that counts changes), the sum of its
executions, whether it exists at the broker (its *standing*), how it ended, which command it waits for, and whether
anything about it is in doubt. `status` is derived from that, in this order: UNKNOWN while nobody knows whether the
order exists, then PENDING_CANCEL, PENDING_REPLACE or PENDING_NEW, then how it ended, then PARTIALLY_FILLED or NEW.

"""
_RACES: Final = """
What crosses on the way is settled by these rules, whatever comes first, late, or twice:

- Fills count in every standing, each once. What is filled is always the sum of the executions that stand.
- Of a broker that tells only how much filled and at which average, whatever is new in its total is one execution, at
  the price that makes the average true. A total below what was counted is old, and takes nothing back.
- A full order is FILLED, whatever else was told of it. Any other end stands, also if an execution is taken back later;
  an order that was FILLED works again then.
- An end that counts fills which were not told yet waits for them: the order stays open, and the broker is asked.
- An old report never reopens an order. Closed → working happens in three cases: the broker shows an order that we had
  closed without its ever having been seen, an execution of a full order is taken back, or more is asked for of a full
  order and the broker took it.
- One command of an order is under way at a time. While a replace is, an order that is full by its old quantity only is
  not taken for filled yet, and fills up to the new quantity are no overfill.
- Of two terms the later version counts. A broker that tells versions tells them in its reports and in its answers to
  replaces.

## Notices

An event of an order lists in `notices` what of it is worth a look; where it has no other `reason`, that tells the
first of them.

| Notice | What it means | What to do |
|---|---|---|
"""


def order_lifecycle_page() -> str:
    """docs/lifecycle.md."""
    notices = [f"| `{name}` | {notice.meaning} | {notice.remedy} |\n" for name, notice in NOTICES.items()]
    return _INTRODUCTION + _actions() + _ORDERS + _orders() + _RACES + "".join(notices)


def _actions() -> str:
    rows = [f"| {before} | {after} | {cause} |\n" for (before, after), cause in action_lifecycle.STEPS.items()]
    return _drawing("actions", "The states of an action") + "| From | To | Because |\n|---|---|---|\n" + "".join(rows)


def _orders() -> str:
    """The table says where each event may come, and what follows."""
    rows = []
    for event, row in order_aggregate.STEPS.items():
        following = ([each for each in Standing if each in row.get(before, ())] for before in Standing)
        cells = " | ".join(", ".join(standings) or "refused" for standings in following)
        rows.append(f"| {event.__name__} | {(event.__doc__ or '').splitlines()[0]} | {cells} |\n")
    return (
        _drawing("orders", "How an order can stand")
        + "| Event | What happened | when NONE | when WORKING | when CLOSED |\n|---|---|---|---|---|\n"
        + "".join(rows)
    )


def _drawing(name: str, title: str) -> str:
    return f"![{title}](images/lifecycle-{name}.svg)\n\n"
