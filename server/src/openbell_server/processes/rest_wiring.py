"""Builds the REST application from what it depends on, one function for each feature's routes."""

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from uuid import uuid4

from litestar.types import ASGIApp, ControllerRouterHandler

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.access.accounts import PostgresAccountRecords
from openbell_server.adapters.postgres.access.api_key_records import PostgresApiKeyRecords
from openbell_server.adapters.postgres.access.credentials import PostgresCredentialStore
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.access.token_callers import PostgresTokenCallerStore
from openbell_server.adapters.postgres.access.user_deletions import PostgresUserDeletionStore
from openbell_server.adapters.postgres.agents.agent_keys import PostgresAgentKeys
from openbell_server.adapters.postgres.agents.spent import PostgresSpent
from openbell_server.adapters.postgres.audit_log import PostgresAuditEntries
from openbell_server.adapters.postgres.connection import (
    BLOCKED,
    DOUBTFUL,
    OUTDATED,
    UNAVAILABLE,
    DatabaseClock,
    Pool,
    Role,
    check_writing,
)
from openbell_server.adapters.postgres.controls.backtest_history import PostgresHistoryStore
from openbell_server.adapters.postgres.controls.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.halt_reports import PostgresHaltReports
from openbell_server.adapters.postgres.controls.heartbeats import PostgresHeartbeatStore
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.receipts import PostgresReceiptStore
from openbell_server.adapters.postgres.controls.rule_books import PostgresRuleBookStore, RuleBooks
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.desk.desk_commands import PostgresDeskCommandStore
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.postgres.events.outbox_health import count_account_outbox, count_waiting, read_queues
from openbell_server.adapters.postgres.events.stream_counts import PostgresStreamCounts
from openbell_server.adapters.postgres.events.webhooks import PostgresWebhookStore
from openbell_server.adapters.postgres.execution.reconciliation import list_external_orders
from openbell_server.adapters.postgres.intents.accept_with_counts import PostgresCountedAcceptStore
from openbell_server.adapters.postgres.intents.intent_statistics import PostgresStatisticsStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore, accept_in_pool
from openbell_server.adapters.postgres.intents.order_lists import PostgresOrderLists
from openbell_server.adapters.postgres.intents.overview import PostgresOverviews
from openbell_server.adapters.postgres.money.balances import PostgresBalanceStore
from openbell_server.adapters.postgres.money.books import PostgresBookStore
from openbell_server.adapters.postgres.money.marks import PostgresMarks
from openbell_server.adapters.webhooks.posting import WebhookPoster
from openbell_server.application.access.delete_user import DeleteUser
from openbell_server.application.access.find_organization import LookUpOrganization
from openbell_server.application.access.manage_accounts import ManageAccounts
from openbell_server.application.access.manage_api_keys import ManageApiKeys
from openbell_server.application.access.manage_credentials import ManageCredentials
from openbell_server.application.access.ports.access_tokens import AccessTokens
from openbell_server.application.access.ports.fault_plans import FaultPlans
from openbell_server.application.access.ports.identity_provider import IdentityProvider
from openbell_server.application.access.ports.vault import Sealer
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.access.read_audit_log import ReadAuditLog
from openbell_server.application.access.reads_at_once import ReadsAtOnce
from openbell_server.application.access.set_fault_plan import SetFaultPlan
from openbell_server.application.agents.create_agent_key import CreateAgentKey
from openbell_server.application.agents.read_worst_case import ReadWorstCase
from openbell_server.application.controls.backtest_rules import BacktestRules
from openbell_server.application.controls.check_command import CheckCommand
from openbell_server.application.controls.promise_heartbeats import PromiseHeartbeats
from openbell_server.application.controls.read_effective_controls import ReadEffectiveControls
from openbell_server.application.controls.read_halt_reports import ReadHaltReports
from openbell_server.application.controls.set_reference_prices import SetReferencePrices
from openbell_server.application.controls.set_rules import SetRules
from openbell_server.application.controls.set_symbol_controls import SetSymbolControls
from openbell_server.application.desk.manage_desk_commands import ManageDeskCommands
from openbell_server.application.events.event_tail_cache import EventTailCache
from openbell_server.application.events.follow_events import FollowEvents
from openbell_server.application.events.ports import Wakes
from openbell_server.application.events.read_events import ReadEvents
from openbell_server.application.events.recheck_access import RecheckAccess
from openbell_server.application.events.stream_places import StreamPlaces
from openbell_server.application.intents.account_cache import RecentAccounts
from openbell_server.application.intents.evaluate_command import EvaluateCommand
from openbell_server.application.intents.group_commit import GroupCommit
from openbell_server.application.intents.read_external_orders import ReadExternalOrders
from openbell_server.application.intents.read_intents import ReadIntents
from openbell_server.application.intents.read_orders import ReadOrders
from openbell_server.application.intents.read_overview import ReadOverview
from openbell_server.application.intents.read_receipts import ReadReceipts
from openbell_server.application.intents.read_statistics import ReadStatistics
from openbell_server.application.intents.send_backlog import SendBacklog
from openbell_server.application.intents.submit_intent import SubmitIntent
from openbell_server.application.money.read_balances import ReadBalances
from openbell_server.application.money.read_books import ReadBooks
from openbell_server.application.money.read_positions import TRADES_MAX, ReadPositions
from openbell_server.application.money.read_profit import ReadProfit
from openbell_server.application.ports.hints import Hints
from openbell_server.application.webhooks.deliver_webhooks import SignAndPost
from openbell_server.application.webhooks.manage_webhooks import ManageWebhooks
from openbell_server.application.webhooks.ports.posting import Poster
from openbell_server.application.webhooks.send_test_message import TRY_SECONDS, TryWebhooks
from openbell_server.brokers.registry import BROKERS, spelled_at
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.authentication import authentication, wall_clock
from openbell_server.transport.rest.access.accounts import account_routes
from openbell_server.transport.rest.access.api_keys import api_key_routes, validation_routes
from openbell_server.transport.rest.access.audit import audit_route
from openbell_server.transport.rest.access.brokers import broker_route
from openbell_server.transport.rest.access.credentials import credential_routes
from openbell_server.transport.rest.access.fault_plans import fault_plan_routes
from openbell_server.transport.rest.access.me import me_route
from openbell_server.transport.rest.access.organizations import organization_route
from openbell_server.transport.rest.access.users import user_route
from openbell_server.transport.rest.agents.worst_case import worst_case_route
from openbell_server.transport.rest.alpaca.entry import alpaca_credential_of
from openbell_server.transport.rest.alpaca.errors import alpaca_renderer
from openbell_server.transport.rest.alpaca.routes import AlpacaUse, alpaca_routes
from openbell_server.transport.rest.alpaca.stream import with_trade_updates
from openbell_server.transport.rest.app import build_app
from openbell_server.transport.rest.controls.backtest import backtest_route
from openbell_server.transport.rest.controls.calendars import calendar_routes
from openbell_server.transport.rest.controls.effective import effective_route
from openbell_server.transport.rest.controls.halt_reports import halt_report_route
from openbell_server.transport.rest.controls.heartbeats import heartbeat_routes
from openbell_server.transport.rest.controls.kinds import kinds_route
from openbell_server.transport.rest.controls.reference_prices import reference_routes
from openbell_server.transport.rest.controls.rules import rule_routes
from openbell_server.transport.rest.controls.symbol_controls import control_routes
from openbell_server.transport.rest.desk.routes import desk_command_routes
from openbell_server.transport.rest.entry import Enter, ObserveRequest
from openbell_server.transport.rest.errors import error_renderer
from openbell_server.transport.rest.events.routes import event_route
from openbell_server.transport.rest.events.server_sent_events import EventStreams, encode_document
from openbell_server.transport.rest.events.webhooks import webhook_routes
from openbell_server.transport.rest.health.account_queue_health import outbox_health_route
from openbell_server.transport.rest.health.queue_health import operations_route
from openbell_server.transport.rest.intents.cancel_orders import cancel_orders_route
from openbell_server.transport.rest.intents.evaluations import evaluation_route
from openbell_server.transport.rest.intents.external_orders import external_order_route
from openbell_server.transport.rest.intents.orders import order_routes
from openbell_server.transport.rest.intents.overview import overview_route
from openbell_server.transport.rest.intents.receipts import receipt_routes
from openbell_server.transport.rest.intents.routes import intent_routes, submit_handler
from openbell_server.transport.rest.intents.submit_fast_path import SubmitHandler
from openbell_server.transport.rest.money.balances import balance_route
from openbell_server.transport.rest.money.positions import position_routes

# Commands that were accepted earlier wait for something else than a busy executor, such as their broker.
WAITING_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestDependencies:
    # Reads, and writes of everything that is not a command.
    pool: Pool
    hints: Hints
    cursor_key: bytes
    tokens: AccessTokens
    limit: LimitRates
    provider_name: str
    # None where no identity provider is configured.
    provider: IdentityProvider | None = None
    # None where no vault key is configured: then no credential can be stored.
    sealer: Sealer | None = None
    fault_plans: FaultPlans
    caps: Mapping[str, Cap] = field(default_factory=lambda: CAPS)
    observe: ObserveRequest = lambda *_: None
    # By default followers poll the database twice a second.
    streams: EventStreams | None = None
    webhook_key: bytes = b""
    private_targets: Collection[str] = ()
    # Sends test messages of webhooks.
    poster: Poster | None = None
    # Connections of authentication, commands and changes of controls, which no read can take; by default those of pool.
    command_pool: Pool | None = None
    # Connections of the accept step; by default batches of commands are written through command_pool.
    accept_pool: Pool | None = None
    # Whether Alpaca's trading API is served too.
    alpaca_front: bool = False


class _Stores:
    """Stores and checks that several features use."""

    def __init__(self, given: RestDependencies) -> None:
        pool = given.pool
        self.commands = given.command_pool or pool
        self.accounts, self.intents = PostgresOrganizationStore(pool), PostgresIntentStore(pool)
        self.ids = DatabaseClock(self.commands)
        self.authenticate = authentication(self.commands, given.tokens)
        self.enter = Enter(self.authenticate, given.limit, ReadsAtOnce(given.caps["reads_at_once"]))
        self.account_records = PostgresAccountRecords(pool, self.ids, given.caps["accounts"])
        self.key_records = PostgresApiKeyRecords(pool, self.ids, given.caps["api_keys"])
        self.calendars, self.session_changes = load_calendars(), PostgresSessionChanges(pool)
        self.balances = ReadBalances(self.accounts, PostgresBalanceStore(pool))
        self._books = RuleBooks(spelled_at)

    def check(self, pool: Pool) -> CheckCommand:
        return CheckCommand(
            PostgresRuleBookStore(pool, self._books),
            PostgresIntentStore(pool),
            PostgresMarketStore(pool),
            PostgresCountedAcceptStore(pool),
            self.calendars,
        )


def rest_app(given: RestDependencies) -> ASGIApp:
    shared = _Stores(given)
    submit = _submit(given, shared)
    handle_submit = submit_handler(shared.enter, submit)
    streams = given.streams or event_streams(given.pool, None, given.cursor_key, given.caps)
    routes = [
        *_access_routes(given, shared),
        *_intent_routes(given, shared, handle_submit),
        cancel_orders_route(shared.enter, shared.accounts, submit),
        desk_command_routes(shared.enter, _desk_commands(given, shared)),
        *_control_routes(given, shared),
        *_event_routes(given, shared, streams),
        outbox_health_route(shared.enter, lambda: count_account_outbox(given.pool)),
        operations_route(shared.enter, lambda: read_queues(given.pool, Role.HEALTH)),
    ]
    check = partial(check_writing, shared.commands)
    errors = error_renderer(UNAVAILABLE, OUTDATED)
    build = partial(build_app, observe=given.observe, handle_submit=handle_submit, is_crowded=submit.accept.is_crowded)
    if not given.alpaca_front:
        return build(routes, check, errors)
    use = _alpaca_use(given, shared, submit)
    return with_trade_updates(build([*routes, alpaca_routes(use)], check, alpaca_renderer(errors)), use, streams)


def _submit(given: RestDependencies, shared: _Stores) -> SubmitIntent:
    intents = PostgresIntentStore(shared.commands)
    alone = intents.accept_across_organizations
    batch = partial(accept_in_pool, given.accept_pool) if given.accept_pool else alone
    # Not on a connection of commands: while there are too many, all of those are in use.
    backlog = SendBacklog(partial(count_waiting, given.pool, WAITING_SECONDS), UNAVAILABLE, time.monotonic)
    return SubmitIntent(
        accounts=RecentAccounts(PostgresOrganizationStore(shared.commands), shared.ids.now),
        intents=intents,
        accept=GroupCommit(batch, alone, DOUBTFUL, BLOCKED, time.monotonic, backlog.refuses),
        controls=PostgresControlStore(shared.commands),
        judge=shared.check(shared.commands),
        ids=shared.ids,
        brokers=BROKERS,
        hints=given.hints,
        doubtful=DOUBTFUL,
        unavailable=UNAVAILABLE,
    )


def _desk_commands(given: RestDependencies, shared: _Stores) -> ManageDeskCommands:
    store = PostgresDeskCommandStore(shared.commands)
    return ManageDeskCommands(shared.accounts, store, BROKERS, shared.ids, given.hints, given.cursor_key)


def _alpaca_use(given: RestDependencies, shared: _Stores, submit: SubmitIntent) -> AlpacaUse:
    key = given.cursor_key
    return AlpacaUse(
        enter=replace(shared.enter, credential_of=alpaca_credential_of),
        accounts=shared.accounts,
        submit=submit,
        intents=ReadIntents(shared.accounts, shared.intents, BROKERS, key),
        orders=ReadOrders(shared.accounts, shared.account_records, PostgresOrderLists(given.pool), BROKERS, key),
        positions=_read_positions(given, shared),
        balances=shared.balances,
        calendars=shared.calendars,
    )


def _access_routes(given: RestDependencies, shared: _Stores) -> list[ControllerRouterHandler]:
    pool, enter, accounts, hints = given.pool, shared.enter, shared.accounts, given.hints
    credentials = PostgresCredentialStore(pool, shared.ids)
    manage_keys = ManageApiKeys(shared.key_records, given.cursor_key, os.urandom)
    find = LookUpOrganization(PostgresTokenCallerStore(pool), given.provider_name, given.provider, time.monotonic)
    return [
        broker_route(enter, BROKERS),
        account_routes(enter, ManageAccounts(accounts, shared.account_records, BROKERS, hints, given.cursor_key)),
        fault_plan_routes(enter, SetFaultPlan(accounts, shared.account_records, given.fault_plans)),
        credential_routes(enter, ManageCredentials(accounts, credentials, BROKERS, shared.ids, given.sealer, hints)),
        api_key_routes(enter, manage_keys, _create_agent_key(given, shared)),
        worst_case_route(enter, _read_worst_case(given, shared)),
        audit_route(enter, ReadAuditLog(PostgresAuditEntries(pool), given.cursor_key)),
        validation_routes(shared.authenticate, given.limit),
        organization_route(enter, find),
        me_route(enter, PostgresRuleStore(pool).standing),
        user_route(enter, DeleteUser(PostgresUserDeletionStore(pool), given.provider_name, given.provider)),
    ]


def _create_agent_key(given: RestDependencies, shared: _Stores) -> CreateAgentKey:
    store = PostgresAgentKeys(given.pool, shared.ids, given.caps["api_keys"])
    return CreateAgentKey(store, PostgresRuleStore(given.pool).standing, os.urandom)


def _read_worst_case(given: RestDependencies, shared: _Stores) -> ReadWorstCase:
    return ReadWorstCase(
        shared.key_records,
        shared.account_records,
        shared.accounts,
        shared.check(given.pool).books,
        PostgresSpent(given.pool),
        shared.ids.now,
    )


def _intent_routes(
    given: RestDependencies, shared: _Stores, handle_submit: SubmitHandler
) -> list[ControllerRouterHandler]:
    pool, enter, accounts, intents, key = given.pool, shared.enter, shared.accounts, shared.intents, given.cursor_key
    read, statistics = ReadIntents(accounts, intents, BROKERS, key), PostgresStatisticsStore(pool)
    return [
        intent_routes(enter, handle_submit, read, ReadStatistics(accounts, statistics)),
        external_order_route(enter, ReadExternalOrders(accounts, partial(list_external_orders, pool), key)),
        overview_route(enter, ReadOverview(shared.account_records, PostgresOverviews(pool), key)),
        balance_route(enter, shared.balances),
        order_routes(enter, ReadOrders(accounts, shared.account_records, PostgresOrderLists(pool), BROKERS, key)),
        position_routes(enter, _read_positions(given, shared), _read_profit(given, shared)),
        *receipt_routes(enter, ReadReceipts(accounts, PostgresReceiptStore(pool), key)),
        evaluation_route(enter, EvaluateCommand(accounts, intents, shared.check(pool), BROKERS)),
    ]


def _read_positions(given: RestDependencies, shared: _Stores) -> ReadPositions:
    books, lists = ReadBooks(PostgresBookStore(given.pool), TRADES_MAX), PostgresOrderLists(given.pool)
    return ReadPositions(shared.accounts, lists, books, PostgresMarks(given.pool))


def _read_profit(given: RestDependencies, shared: _Stores) -> ReadProfit:
    store, marks = PostgresBookStore(given.pool), PostgresMarks(given.pool)
    return ReadProfit(shared.accounts, ReadBooks(store, TRADES_MAX), store, marks, BROKERS, given.cursor_key)


def _control_routes(given: RestDependencies, shared: _Stores) -> list[ControllerRouterHandler]:
    pool, enter, accounts, ids = given.pool, shared.enter, shared.accounts, shared.ids
    calendars = shared.calendars, shared.session_changes
    books, history = shared.check(pool).books, PostgresHistoryStore(pool)
    prices = SetReferencePrices(accounts, shared.account_records, PostgresMarketStore(pool), BROKERS, ids)

    def symbol_controls(pool: Pool) -> SetSymbolControls:
        stores = PostgresOrganizationStore(pool), PostgresControlStore(pool)
        return SetSymbolControls(*stores, BROKERS, *calendars, given.hints)

    def rules(pool: Pool) -> SetRules:
        stores = PostgresOrganizationStore(pool), PostgresApiKeyRecords(pool, ids), PostgresRuleStore(pool)
        return SetRules(*stores, BROKERS, given.hints, given.cursor_key)

    def heartbeats(pool: Pool) -> PromiseHeartbeats:
        return PromiseHeartbeats(PostgresHeartbeatStore(pool), rules(pool))

    return [
        *calendar_routes(enter, *calendars, ids.now),
        control_routes(enter, symbol_controls(shared.commands)),
        effective_route(
            enter, ReadEffectiveControls(rules(pool), symbol_controls(pool), books, DatabaseClock(pool).now)
        ),
        halt_report_route(enter, ReadHaltReports(accounts, PostgresHaltReports(pool), given.cursor_key)),
        backtest_route(
            enter, BacktestRules(accounts, books, history, BROKERS, *calendars, given.caps["backtests_at_once"])
        ),
        kinds_route(enter),
        *rule_routes(enter, rules(pool), rules(shared.commands)),
        heartbeat_routes(enter, heartbeats(pool), heartbeats(shared.commands)),
        *reference_routes(enter, prices),
    ]


def _event_routes(given: RestDependencies, shared: _Stores, streams: EventStreams) -> list[ControllerRouterHandler]:
    pool, enter, key = given.pool, shared.enter, given.cursor_key
    events = ReadEvents(shared.accounts, PostgresEventStore(pool), BROKERS, key)
    store = PostgresWebhookStore(pool, shared.ids, given.caps["webhooks"])
    webhooks = ManageWebhooks(store, key, given.webhook_key, given.private_targets)
    sign_and_post = SignAndPost(given.poster or message_poster(given.private_targets), given.webhook_key, time.time)
    return [
        event_route(enter, events, streams),
        *webhook_routes(enter, webhooks, TryWebhooks(webhooks, shared.ids, sign_and_post, time.monotonic)),
    ]


def message_poster(private_targets: Collection[str]) -> WebhookPoster:
    return WebhookPoster(private_targets=private_targets, whole_seconds=TRY_SECONDS)


class _NoHints:
    def listen(self, notify: Callable[[AccountId], None]) -> None:
        """Does nothing: followers poll twice a second."""


def event_streams(pool: Pool, wakes: Wakes | None, cursor_key: bytes, caps: Mapping[str, Cap] = CAPS) -> EventStreams:
    events = PostgresEventStore(pool)
    logs = EventTailCache(events, wakes or _NoHints(), encode_document)
    access = RecheckAccess(PostgresOrganizationStore(pool), events)
    follow = FollowEvents(access, logs, cursor_key, time.monotonic, caps["events_per_second"])
    return EventStreams(follow, wall_clock, StreamPlaces(PostgresStreamCounts(pool, uuid4()), caps["streams"]))
