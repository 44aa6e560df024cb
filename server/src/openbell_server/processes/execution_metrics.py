"""What an executor and a relay show of the work itself, some of it read from the database when somebody looks."""

from collections.abc import Mapping
from typing import Final

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.examination import Examination
from openbell_server.application.execute_action import ExecuteAction
from openbell_server.application.hold_slots import HoldSlots
from openbell_server.processes.operations import NotReady, Operations
from openbell_server.telemetry.instruments import Values

_UNKNOWN: Final = {
    "openbell_actions_unknown": ("Actions of all slots that nobody knows the outcome of.", ()),
    "openbell_actions_unknown_oldest_seconds": ("Seconds for which the oldest of them has been so.", ()),
    "openbell_actions_flagged": ("Those of them that did not settle by themselves, so that a person should look.", ()),
}
_NO_STATES: Final = frozenset({"doors", "resends"})
_QUEUES: Final = {
    "openbell_outbox_pending_rows": ("Rows that wait to be told.", ("queue",)),
    "openbell_outbox_processing_rows": ("Rows in the hands of a relay.", ("queue",)),
    "openbell_outbox_failed_rows": ("Rows that have failed and that no operator has acknowledged.", ("queue",)),
    "openbell_outbox_lag_seconds": ("How long the row that has waited longest could have been claimed.", ("queue",)),
}


def watch_execution(operations: Operations, pool: Pool, slots: HoldSlots, execute: ExecuteAction) -> None:
    """Slots, doors and outcomes of this executor, and what is UNKNOWN anywhere."""

    async def has_slots() -> None:
        if not slots.held():
            raise NotReady("no slot is held: others hold them all, or leases cannot be renewed")

    async def unknown() -> Mapping[str, Values]:
        numbers = await Examination(pool).unknown_actions()
        return {metric: {(): number} for metric, number in zip(_UNKNOWN, numbers, strict=True)}

    operations.need("slots", has_slots)
    read = operations.instruments.read
    about = "Slots whose accounts this executor works."
    read("gauge", "openbell_executor_slots_held", about, (), lambda: {(): len(slots.held())})
    about = "Doors that this executor opened: each leads to one command at a broker."
    read("counter", "openbell_executor_doors_total", about, (), lambda: {(): execute.counts["doors"]})
    about = "Commands written again with the same id, after proof that they had never arrived."
    read("counter", "openbell_executor_resends_total", about, (), lambda: {(): execute.counts["resends"]})
    about = "What became of the actions behind them when their broker had answered, or had not: ACKED, REFUSED, …"
    read(
        "counter",
        "openbell_executor_outcomes_total",
        about,
        ("state",),
        lambda: {(state,): count for state, count in execute.counts.items() if state not in _NO_STATES},
    )
    operations.from_store(unknown, _UNKNOWN)


def watch_queues(operations: Operations, pool: Pool) -> None:
    """How the queues stand, for all relays together."""

    async def standing() -> Mapping[str, Values]:
        queues = await Examination(pool).queues()
        columns = ("pending", "processing", "unacknowledged", "lag_seconds")
        return {
            metric: {(each.queue,): getattr(each, column) for each in queues}
            for metric, column in zip(_QUEUES, columns, strict=True)
        }

    operations.from_store(standing, _QUEUES)
