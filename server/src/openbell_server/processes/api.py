"""The REST process."""

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial

from litestar.types import ASGIApp, ControllerRouterHandler

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.postgres.accounts import PostgresAccountRecords
from openbell_server.adapters.postgres.api_key_records import PostgresApiKeyRecords
from openbell_server.adapters.postgres.backtest_history import PostgresHistoryStore
from openbell_server.adapters.postgres.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.callers import PostgresTokenCallerStore
from openbell_server.adapters.postgres.connection import (
    ACCEPT_LANE,
    BLOCKED,
    DOUBTFUL,
    OUTDATED,
    UNAVAILABLE,
    DatabaseClock,
    Pool,
    Role,
    check_writing,
    open_lanes,
    open_pool,
)
from openbell_server.adapters.postgres.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.counted_accept import PostgresCountedAcceptStore
from openbell_server.adapters.postgres.credentials import PostgresCredentialStore
from openbell_server.adapters.postgres.events import PostgresEventStore
from openbell_server.adapters.postgres.halt_reports import PostgresHaltReports
from openbell_server.adapters.postgres.intent_statistics import PostgresStatisticsStore
from openbell_server.adapters.postgres.intents import PostgresIntentStore, accept_in_lane
from openbell_server.adapters.postgres.markets import PostgresMarketStore
from openbell_server.adapters.postgres.order_lists import PostgresOrderLists
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.outbox_health import count_account_outbox, read_queues
from openbell_server.adapters.postgres.receipts import PostgresReceiptStore
from openbell_server.adapters.postgres.reconciliation import list_external_orders
from openbell_server.adapters.postgres.rule_books import PostgresRuleBookStore, RuleBooks
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.adapters.postgres.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.user_deletions import PostgresUserDeletionStore
from openbell_server.adapters.postgres.webhooks import PostgresWebhookStore
from openbell_server.adapters.webhooks.posting import WebhookPoster
from openbell_server.application.accept_together import LANES, AcceptTogether
from openbell_server.application.backtest_rules import BacktestRules
from openbell_server.application.delete_user import DeleteUser
from openbell_server.application.deliver_webhooks import SignAndPost
from openbell_server.application.evaluate_command import EvaluateCommand
from openbell_server.application.follow_events import FollowEvents
from openbell_server.application.give_references import GiveReferences
from openbell_server.application.judge_command import JudgeCommand
from openbell_server.application.limit_rates import LimitRates
from openbell_server.application.look_up_organization import LookUpOrganization
from openbell_server.application.manage_accounts import ManageAccounts
from openbell_server.application.manage_api_keys import ManageApiKeys
from openbell_server.application.manage_credentials import ManageCredentials
from openbell_server.application.manage_webhooks import ManageWebhooks
from openbell_server.application.ports.access_tokens import AccessTokens
from openbell_server.application.ports.events import Wakes
from openbell_server.application.ports.fault_plans import FaultPlans
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.identity_provider import IdentityProvider
from openbell_server.application.ports.posting import Poster
from openbell_server.application.ports.vault import Sealer
from openbell_server.application.read_events import ReadEvents
from openbell_server.application.read_external_orders import ReadExternalOrders
from openbell_server.application.read_halt_report import ReadHaltReport
from openbell_server.application.read_intents import ReadIntents
from openbell_server.application.read_orders import ReadOrders
from openbell_server.application.read_receipts import ReadReceipts
from openbell_server.application.read_statistics import ReadStatistics
from openbell_server.application.recent_accounts import RecentAccounts
from openbell_server.application.set_fault_plan import SetFaultPlan
from openbell_server.application.set_rules import SetRules
from openbell_server.application.set_symbol_controls import SetSymbolControls
from openbell_server.application.submit_intent import SubmitIntent
from openbell_server.application.try_webhooks import TRY_SECONDS, TryWebhooks
from openbell_server.application.watch_access import WatchAccess
from openbell_server.application.watch_logs import WatchLogs
from openbell_server.brokers.paper.fault_client import fault_plans
from openbell_server.brokers.registry import BROKERS, spelled_at
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.market_calendars import MarketCalendars
from openbell_server.processes.calendar_ends import watch_calendars
from openbell_server.processes.callers import access_tokens, authentication, identity_provider, wall_clock
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.lifecycle import notify_ready
from openbell_server.processes.limits import rate_limits, watch_limits
from openbell_server.processes.metrics import watch_requests
from openbell_server.processes.operations import Operations
from openbell_server.processes.vault import sealer
from openbell_server.settings import Settings
from openbell_server.transport.rest.accounts import account_routes
from openbell_server.transport.rest.api_keys import api_key_routes, validation_routes
from openbell_server.transport.rest.app import ObserveRequest, build_app
from openbell_server.transport.rest.backtest import backtest_route
from openbell_server.transport.rest.brokers import broker_route
from openbell_server.transport.rest.calendars import calendar_routes
from openbell_server.transport.rest.controls import control_routes
from openbell_server.transport.rest.credentials import credential_routes
from openbell_server.transport.rest.entry import Enter
from openbell_server.transport.rest.error_responses import error_renderer
from openbell_server.transport.rest.evaluations import evaluation_route
from openbell_server.transport.rest.event_streams import EventStreams, encode_document
from openbell_server.transport.rest.events import event_route
from openbell_server.transport.rest.external_orders import external_order_route
from openbell_server.transport.rest.fault_plans import fault_plan_routes
from openbell_server.transport.rest.halt_reports import halt_report_route
from openbell_server.transport.rest.intents import intent_routes, submit_handler
from openbell_server.transport.rest.operations import operations_route
from openbell_server.transport.rest.orders import order_routes
from openbell_server.transport.rest.organizations import organization_route
from openbell_server.transport.rest.outbox_health import outbox_health_route
from openbell_server.transport.rest.receipts import receipt_routes
from openbell_server.transport.rest.references import reference_routes
from openbell_server.transport.rest.rules import rule_routes
from openbell_server.transport.rest.users import user_route
from openbell_server.transport.rest.webhooks import webhook_routes

CONNECTIONS_MAX = 2048


def _poster(private_targets: bool) -> WebhookPoster:
    """Sends test messages of webhooks."""
    return WebhookPoster(private_allowed=private_targets, whole_seconds=TRY_SECONDS)


def rest_app(
    pool: Pool,
    hints: Hints,
    cursor_key: bytes,
    tokens: AccessTokens,
    limit: LimitRates,
    provider_name: str,
    provider: IdentityProvider | None,
    vault: Sealer | None,
    plans: FaultPlans,
    observe: ObserveRequest = lambda *_: None,
    streams: EventStreams | None = None,
    webhook_key: bytes = b"",
    private_targets: bool = False,
    poster: Poster | None = None,
    lanes: Pool | None = None,
) -> ASGIApp:
    """The REST application on a database; without lanes, sets of commands are written through its pool."""
    organizations, intents, ids = PostgresOrganizationStore(pool), PostgresIntentStore(pool), DatabaseClock(pool)
    authenticate, controls = authentication(pool, tokens), PostgresControlStore(pool)
    enter = Enter(authenticate, limit)
    calendars, changes = load_calendars(), PostgresSessionChanges(pool)
    judge = _judge(pool, intents, calendars)
    recent, accept = RecentAccounts(organizations, ids.now), _accept(intents, lanes)
    submit = SubmitIntent(recent, intents, accept, controls, judge, ids, BROKERS, hints, DOUBTFUL, UNAVAILABLE)
    handle_submit = submit_handler(enter, submit)
    backtest = BacktestRules(organizations, judge.books, PostgresHistoryStore(pool), BROKERS, calendars, changes)
    read = ReadIntents(organizations, intents, BROKERS, cursor_key)
    account_records, key_records = PostgresAccountRecords(pool, ids), PostgresApiKeyRecords(pool, ids)
    look_up = LookUpOrganization(PostgresTokenCallerStore(pool), provider_name, provider, time.monotonic)
    credentials = PostgresCredentialStore(pool, ids)
    webhooks = ManageWebhooks(PostgresWebhookStore(pool, ids), cursor_key, webhook_key, private_targets)
    sign_and_post = SignAndPost(poster or _poster(private_targets), webhook_key, time.time)
    references = GiveReferences(organizations, account_records, PostgresMarketStore(pool), BROKERS, ids)
    routes: list[ControllerRouterHandler] = [
        broker_route(enter, BROKERS),
        *calendar_routes(enter, calendars, changes, ids.now),
        account_routes(enter, ManageAccounts(organizations, account_records, BROKERS, hints, cursor_key)),
        fault_plan_routes(enter, SetFaultPlan(organizations, account_records, plans)),
        intent_routes(enter, handle_submit, read, ReadStatistics(organizations, PostgresStatisticsStore(pool))),
        *_what_happened(enter, pool, cursor_key, streams),
        control_routes(enter, SetSymbolControls(organizations, controls, BROKERS, calendars, changes, hints)),
        *receipt_routes(enter, ReadReceipts(organizations, PostgresReceiptStore(pool), cursor_key)),
        evaluation_route(enter, EvaluateCommand(organizations, intents, judge, BROKERS)),
        halt_report_route(enter, ReadHaltReport(organizations, PostgresHaltReports(pool))),
        backtest_route(enter, backtest),
        *rule_routes(enter, SetRules(organizations, key_records, PostgresRuleStore(pool), BROKERS, hints, cursor_key)),
        *reference_routes(enter, references),
        credential_routes(enter, ManageCredentials(organizations, credentials, BROKERS, ids, vault, hints)),
        *webhook_routes(enter, webhooks, TryWebhooks(webhooks, ids, sign_and_post, time.monotonic)),
        api_key_routes(enter, ManageApiKeys(key_records, cursor_key, os.urandom)),
        validation_routes(authenticate, limit),
        organization_route(enter, look_up),
        user_route(enter, DeleteUser(PostgresUserDeletionStore(pool), provider_name, provider)),
        outbox_health_route(enter, lambda: count_account_outbox(pool)),
        operations_route(enter, lambda: read_queues(pool, Role.HEALTH)),
    ]
    return build_app(routes, lambda: check_writing(pool), error_renderer(UNAVAILABLE, OUTDATED), observe, handle_submit)


def _what_happened(
    enter: Enter, pool: Pool, cursor_key: bytes, streams: EventStreams | None
) -> list[ControllerRouterHandler]:
    """Orders, what they filled, what is held, and the log of all that."""
    accounts, intents = PostgresOrganizationStore(pool), PostgresIntentStore(pool)
    orders = ReadOrders(accounts, intents, PostgresOrderLists(pool), BROKERS, cursor_key)
    external_orders = ReadExternalOrders(accounts, partial(list_external_orders, pool), cursor_key)
    events = ReadEvents(accounts, PostgresEventStore(pool), BROKERS, cursor_key)
    return [
        external_order_route(enter, external_orders),
        order_routes(enter, orders),
        event_route(enter, events, streams or event_streams(pool, None, cursor_key)),
    ]


def _accept(intents: PostgresIntentStore, lanes: Pool | None) -> AcceptTogether:
    alone = intents.accept_across_organizations
    together = partial(accept_in_lane, lanes) if lanes else alone
    return AcceptTogether(together, alone, DOUBTFUL, BLOCKED, time.monotonic)


def _judge(pool: Pool, intents: PostgresIntentStore, calendars: MarketCalendars) -> JudgeCommand:
    return JudgeCommand(
        PostgresRuleBookStore(pool, RuleBooks(spelled_at)),
        intents,
        PostgresMarketStore(pool),
        PostgresCountedAcceptStore(pool),
        calendars,
    )


class _NoHints:
    def listen(self, hear: Callable[[AccountId], None]) -> None:
        """Nothing is ever heard: followers look by themselves, twice a second."""


def event_streams(pool: Pool, wakes: Wakes | None, cursor_key: bytes) -> EventStreams:
    """The streams of a process, which share what they read."""
    events = PostgresEventStore(pool)
    logs = WatchLogs(events, wakes or _NoHints(), encode_document)
    access = WatchAccess(PostgresOrganizationStore(pool), events)
    return EventStreams(FollowEvents(access, logs, cursor_key, time.monotonic), wall_clock)


async def serve(settings: Settings, stopping: asyncio.Event, operations: Operations) -> None:
    """Serve REST until stopping is set."""
    async with (
        await open_pool(settings.require("database_url"), connections_max=16) as pool,
        await open_lanes(settings.require("database_url"), Role.ACCEPT, LANES, ACCEPT_LANE) as lanes,
        access_tokens(settings) as tokens,
        rate_limits(settings) as limit,
        identity_provider(settings) as provider,
        fault_plans(settings.paper_url) as plans,
    ):
        await require_schema(pool)
        watch_calendars(operations, load_calendars())
        hints = JetStreamConnection(settings.nats_url)
        operations.watch_database(pool)
        operations.watch_nats(hints, needed=False)
        watch_limits(operations, limit)
        cursor_key, observe = settings.require("cursor_secret").encode(), watch_requests(operations)
        provider_name, vault = settings.identity_provider, sealer(settings)
        streams = event_streams(pool, EventWakes(hints), cursor_key)
        webhook_key = settings.webhook_key.get_secret_value().encode()
        poster = _poster(settings.webhook_private_targets)
        app = rest_app(
            *(pool, hints, cursor_key, tokens, limit, provider_name, provider, vault, plans, observe, streams),
            *(webhook_key, settings.webhook_private_targets, poster, lanes),
        )
        connecting = asyncio.ensure_future(hints.run())
        try:
            await serve_http(
                app,
                settings.api_host,
                settings.api_port,
                stopping,
                connections_max=CONNECTIONS_MAX,
                ready=notify_ready,
                before_stop=streams.drain,
            )
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            await poster.close()
