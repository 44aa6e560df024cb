"""Metrics of executor and relay, some of them read from the database on scrape."""

from collections.abc import Callable, Mapping
from typing import Final

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.operators.diagnostics import Diagnostics
from openbell_server.application.execution.broker_budget import BrokerBudget
from openbell_server.application.execution.execute_action import ExecuteAction
from openbell_server.application.execution.execution_ticks import ExecutionTicks
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.domain.controls.findings import Scope
from openbell_server.processes.operations_port import NotReady, Operations
from openbell_server.telemetry.instruments import Kind, Values

_UNKNOWN: Final = {
    "openbell_actions_unknown": ("Actions of all slots whose outcome is UNKNOWN.", ()),
    "openbell_actions_unknown_oldest_seconds": ("Age of the oldest UNKNOWN action in seconds.", ()),
    "openbell_actions_flagged": ("UNKNOWN actions that did not settle automatically and need a person.", ()),
}
_NO_STATES: Final = frozenset({"doors", "resends"})
_HALTED: Final = {"openbell_accounts_halted": ("Accounts that stopped automatically and wait for an operator.", ())}
_SWITCHES: Final = {"openbell_halts_in_force": ("Halts in force by switches, by scope.", ("scope",))}
_QUEUES: Final = {
    "openbell_outbox_pending_rows": ("Rows that wait to be published.", ("queue",)),
    "openbell_outbox_processing_rows": ("Rows claimed by a relay.", ("queue",)),
    "openbell_outbox_failed_rows": ("Rows that have failed and that no operator has acknowledged.", ("queue",)),
    "openbell_outbox_lag_seconds": ("How long the row that has waited longest could have been claimed.", ("queue",)),
}


def watch_execution(operations: Operations, pool: Pool, slots: SlotLeases, execute: ExecuteAction) -> None:
    """Slots, doors and outcomes of this executor, and all UNKNOWN actions."""

    async def has_slots() -> None:
        if not slots.held():
            raise NotReady("no slot is held: others hold them all, or leases cannot be renewed")

    async def unknown() -> Mapping[str, Values]:
        numbers = await Diagnostics(pool).unknown_actions()
        return {metric: {(): number} for metric, number in zip(_UNKNOWN, numbers, strict=True)}

    operations.need("slots", has_slots)
    read = operations.instruments.read
    about = "Slots held by this executor."
    read("gauge", "openbell_executor_slots_held", about, (), lambda: {(): len(slots.held())})
    about = "Doors that this executor opened: each is one command to a broker."
    read("counter", "openbell_executor_doors_total", about, (), lambda: {(): execute.counts["doors"]})
    about = "Commands sent again with the same id, after proof that they never arrived."
    read("counter", "openbell_executor_resends_total", about, (), lambda: {(): execute.counts["resends"]})
    about = "States of the actions after the broker's answer or without one: ACKED, REFUSED, …"
    read(
        "counter",
        "openbell_executor_outcomes_total",
        about,
        ("state",),
        lambda: {(state,): count for state, count in execute.counts.items() if state not in _NO_STATES},
    )
    operations.from_store(unknown, _UNKNOWN)


def watch_ticks(operations: Operations, ticks: ExecutionTicks) -> None:
    read = operations.instruments.read
    about = "Statements that wrote outcomes and reports, and opened doors, of many accounts at once."
    read("counter", "openbell_executor_ticks_total", about, (), lambda: {(): ticks.counts["ticks"]})
    about = "Orders and accounts that were processed in a transaction of their own instead, by reason."
    read(
        "counter",
        "openbell_executor_long_way_total",
        about,
        ("reason",),
        lambda: {(reason,): count for reason, count in ticks.long_way.items()},
    )


def watch_reconciliation(operations: Operations, pool: Pool, brokers: Mapping[str, FollowBroker]) -> None:
    """Reconciliations, their findings, and silent feeds."""

    async def halted() -> Mapping[str, Values]:
        return {name: {(): await Diagnostics(pool).halted_accounts()} for name in _HALTED}

    async def switched() -> Mapping[str, Values]:
        counts = await Diagnostics(pool).halts_in_force()
        return {name: {(scope,): counts.get(scope, 0) for scope in Scope} for name in _SWITCHES}

    def each(kind: Kind, name: str, about: str, value: Callable[[FollowBroker], float]) -> None:
        operations.instruments.read(
            kind, name, about, ("broker",), lambda: {(broker,): value(follow) for broker, follow in brokers.items()}
        )

    about = "Completed comparisons of an account with the broker's list."
    each("counter", "openbell_reconciliations_total", about, lambda follow: follow.reconcile.counts["passes"])
    about = "Orders at the broker that are not ours: found or changed."
    each("counter", "openbell_external_orders_total", about, lambda f: f.reconcile.counts["external_orders"])
    about = "Comparisons in which the broker did not report the account's positions."
    each("counter", "openbell_positions_untold_total", about, lambda f: f.reconcile.counts["positions_untold"])
    about = "How often the feed did not report an order of an account in time."
    each("counter", "openbell_broker_feed_silences_total", about, lambda follow: follow.echoes.silences)
    about = "How often the feed was restarted because it was silent."
    each("counter", "openbell_broker_feed_restarts_total", about, lambda follow: follow.echoes.restarts)
    about = "Accounts whose feed is silent; their orders are looked up instead."
    each("gauge", "openbell_broker_feed_mute_accounts", about, lambda follow: len(follow.echoes.mute))
    operations.from_store(halted, _HALTED)
    operations.from_store(switched, _SWITCHES)


def watch_budgets(operations: Operations, budgets: Mapping[str, BrokerBudget]) -> None:
    read = operations.instruments.read
    about = (
        "Calls that this executor may begin at a broker now, and how many of them for other than cancels and look-ups."
    )

    def left() -> Values:
        rooms = {name: budget.room() for name, budget in budgets.items()}
        calls: dict[tuple[str, ...], float] = {(name, "any"): room.calls for name, room in rooms.items()}
        return calls | {(name, "command"): room.commands for name, room in rooms.items()}

    read("gauge", "openbell_broker_calls_left", about, ("broker", "use"), left)
    about = "1 while no new order is sent to a broker because it limited our rate; cancels and look-ups continue."
    paused = "openbell_broker_paused"
    read(
        "gauge",
        paused,
        about,
        ("broker",),
        lambda: {(name,): float(budget.is_paused) for name, budget in budgets.items()},
    )


def watch_queues(operations: Operations, pool: Pool) -> None:
    """Queue metrics over all relays."""

    async def standing() -> Mapping[str, Values]:
        queues = await Diagnostics(pool).queues()
        columns = ("pending", "processing", "unacknowledged", "lag_seconds")
        return {
            metric: {(each.queue,): getattr(each, column) for each in queues}
            for metric, column in zip(_QUEUES, columns, strict=True)
        }

    operations.from_store(standing, _QUEUES)
