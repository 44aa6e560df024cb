"""What an executor and a relay show of the work itself, some of it read from the database when somebody looks."""

from collections.abc import Callable, Mapping
from typing import Final

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.examination import Examination
from openbell_server.application.broker_budget import BrokerBudget
from openbell_server.application.execute_action import ExecuteAction
from openbell_server.application.follow_broker import FollowBroker
from openbell_server.application.hold_slots import HoldSlots
from openbell_server.processes.operations import NotReady, Operations
from openbell_server.telemetry.instruments import Kind, Values

_UNKNOWN: Final = {
    "openbell_actions_unknown": ("Actions of all slots that nobody knows the outcome of.", ()),
    "openbell_actions_unknown_oldest_seconds": ("Seconds for which the oldest of them has been so.", ()),
    "openbell_actions_flagged": ("Those of them that did not settle by themselves, so that a person should look.", ()),
}
_NO_STATES: Final = frozenset({"doors", "resends"})
_HALTED: Final = {
    "openbell_accounts_halted": ("Accounts that stopped by themselves and wait for an operator.", ()),
}
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


def watch_reconciliation(operations: Operations, pool: Pool, brokers: Mapping[str, FollowBroker]) -> None:
    """How often accounts are compared with their brokers, what that finds, and feeds that fell silent."""

    async def halted() -> Mapping[str, Values]:
        return {name: {(): await Examination(pool).halted_accounts()} for name in _HALTED}

    def each(kind: Kind, name: str, about: str, value: Callable[[FollowBroker], float]) -> None:
        operations.instruments.read(
            kind, name, about, ("broker",), lambda: {(broker,): value(follow) for broker, follow in brokers.items()}
        )

    about = "Comparisons of an account with the broker's list that came to an end."
    each("counter", "openbell_reconciliations_total", about, lambda follow: follow.reconcile.counts["passes"])
    about = "Orders at the broker that are not ours: found, or told anew."
    each("counter", "openbell_external_orders_total", about, lambda f: f.reconcile.counts["external_orders"])
    about = "Comparisons in which the broker did not say what the account holds."
    each("counter", "openbell_positions_untold_total", about, lambda f: f.reconcile.counts["positions_untold"])
    about = "How often the feed was silent about an account when it had to tell of an order."
    each("counter", "openbell_broker_feed_silences_total", about, lambda follow: follow.echoes.silences)
    about = "How often the feed was begun anew because it was silent."
    each("counter", "openbell_broker_feed_restarts_total", about, lambda follow: follow.echoes.restarts)
    about = "Accounts that the feed is silent about; their orders are asked for instead."
    each("gauge", "openbell_broker_feed_mute_accounts", about, lambda follow: len(follow.echoes.mute))
    operations.from_store(halted, _HALTED)


def watch_budgets(operations: Operations, budgets: Mapping[str, BrokerBudget]) -> None:
    """What may be sent to each broker now."""
    read = operations.instruments.read
    about = (
        "Calls that this executor may begin at a broker now, and how many of them for other than cancels and look-ups."
    )

    def left() -> Values:
        rooms = {name: budget.room() for name, budget in budgets.items()}
        calls: dict[tuple[str, ...], float] = {(name, "any"): room.calls for name, room in rooms.items()}
        return calls | {(name, "command"): room.commands for name, room in rooms.items()}

    read("gauge", "openbell_broker_calls_left", about, ("broker", "use"), left)
    about = "Whether no new order is sent to a broker, because it asked for calm; cancels and look-ups are."
    paused = "openbell_broker_paused"
    read(
        "gauge",
        paused,
        about,
        ("broker",),
        lambda: {(name,): float(budget.is_paused) for name, budget in budgets.items()},
    )


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
