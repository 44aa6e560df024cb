"""Builds the parts of an executor from what it depends on; processes and the simulation use the same function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from openbell_server.application.access.ports.vault import Opener
from openbell_server.application.execution.account_dispatcher import AccountDispatcher, Bulkhead
from openbell_server.application.execution.broker_budget import BudgetedSession
from openbell_server.application.execution.broker_sign_ins import BrokerSignIns
from openbell_server.application.execution.execute_action import ExecuteAction
from openbell_server.application.execution.execution_ticks import ExecutionTicks
from openbell_server.application.execution.follow_broker import FollowBroker
from openbell_server.application.execution.ports import ExecutionStore, SealedStore, SessionStore, TickStore
from openbell_server.application.execution.recover_account import RecoverAccount
from openbell_server.application.execution.refresh_markets import Place
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.application.execution.slot_leases import SlotLeases
from openbell_server.application.execution.track_orders import TrackOrders
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerDefinition, BrokerSession
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.identifiers import AccountId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorDependencies:
    store: ExecutionStore
    tick_store: TickStore
    session_store: SessionStore
    sealed: SealedStore
    # None if no key is configured: then secrets cannot be opened.
    opener: Opener | None
    slots: SlotLeases
    hints: Hints
    definitions: Mapping[str, BrokerDefinition]
    # A session and a call budget for each broker.
    bulkheads: Mapping[str, Bulkhead]
    monotonic: Callable[[], float]
    new_id: Callable[[], UUID]
    # Errors of the store that pass by themselves, and those of them after which nothing was written.
    unavailable: tuple[type[Exception], ...]
    blocked: tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class ExecutorParts:
    sessions: Mapping[str, BrokerSession]
    sign_ins: BrokerSignIns
    brokers: Mapping[str, FollowBroker]
    execute: ExecuteAction
    ticks: ExecutionTicks
    dispatcher: AccountDispatcher
    # Places whose prices are refreshed soon, because an order there needs one.
    priced: set[Place]
    # Accounts whose balances are read soon, because they may have changed.
    moved: dict[AccountId, BrokerAccount]


def build_executor(given: ExecutorDependencies) -> ExecutorParts:
    priced: set[Place] = set()
    store, slots, hints, monotonic = given.store, given.slots, given.hints, given.monotonic
    moved: dict[AccountId, BrokerAccount] = {}
    track = TrackOrders(store, hints, priced=priced, moved=moved)
    sessions = {name: BudgetedSession(each.session, each.budget) for name, each in given.bulkheads.items()}
    sign_ins = BrokerSignIns(given.session_store, given.sealed, given.opener, sessions, slots, hints, monotonic)
    ticks = ExecutionTicks(
        given.tick_store, sign_ins, slots.held, hints, monotonic, given.new_id, given.blocked, priced
    )
    brokers = {
        name: FollowBroker(given.definitions[name], session, store, track, slots, sign_ins, monotonic, ticks)
        for name, session in sessions.items()
    }
    execute = ExecuteAction(store, sign_ins, hints, given.new_id, monotonic, given.unavailable, ticks=ticks)
    settle, recover = SettleUnknown(store, track, hints, execute), RecoverAccount(store, track)
    dispatcher = AccountDispatcher(store, execute, settle, recover, brokers, slots, dict(given.bulkheads))
    # A signed-in account may have work.
    sign_ins.listeners.append(dispatcher.notify)
    return ExecutorParts(sessions, sign_ins, brokers, execute, ticks, dispatcher, priced, moved)
