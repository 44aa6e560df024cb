"""The REST process."""

import asyncio
import os
import time
from functools import partial

from litestar.types import ASGIApp, ControllerRouterHandler

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.accounts import PostgresAccountRecords
from openbell_server.adapters.postgres.api_key_records import PostgresApiKeyRecords
from openbell_server.adapters.postgres.backtest_history import PostgresHistoryStore
from openbell_server.adapters.postgres.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.callers import PostgresTokenCallerStore
from openbell_server.adapters.postgres.connection import (
    DOUBTFUL,
    OUTDATED,
    UNAVAILABLE,
    DatabaseClock,
    Pool,
    Role,
    check_writing,
    open_pool,
)
from openbell_server.adapters.postgres.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.counted_accept import PostgresCountedAcceptStore
from openbell_server.adapters.postgres.credentials import PostgresCredentialStore
from openbell_server.adapters.postgres.halt_reports import PostgresHaltReports
from openbell_server.adapters.postgres.intent_statistics import PostgresStatisticsStore
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.markets import PostgresMarketStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.outbox_health import count_account_outbox, read_queues
from openbell_server.adapters.postgres.receipts import PostgresReceiptStore
from openbell_server.adapters.postgres.reconciliation import list_external_orders
from openbell_server.adapters.postgres.rule_books import PostgresRuleBookStore, RuleBooks
from openbell_server.adapters.postgres.schema import require_schema
from openbell_server.adapters.postgres.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.user_deletions import PostgresUserDeletionStore
from openbell_server.application.backtest_rules import BacktestRules
from openbell_server.application.delete_user import DeleteUser
from openbell_server.application.evaluate_command import EvaluateCommand
from openbell_server.application.give_references import GiveReferences
from openbell_server.application.judge_command import JudgeCommand
from openbell_server.application.limit_rates import LimitRates
from openbell_server.application.look_up_organization import LookUpOrganization
from openbell_server.application.manage_accounts import ManageAccounts
from openbell_server.application.manage_api_keys import ManageApiKeys
from openbell_server.application.manage_credentials import ManageCredentials
from openbell_server.application.ports.access_tokens import AccessTokens
from openbell_server.application.ports.fault_plans import FaultPlans
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.identity_provider import IdentityProvider
from openbell_server.application.ports.vault import Sealer
from openbell_server.application.read_external_orders import ReadExternalOrders
from openbell_server.application.read_halt_report import ReadHaltReport
from openbell_server.application.read_intents import ReadIntents
from openbell_server.application.read_receipts import ReadReceipts
from openbell_server.application.read_statistics import ReadStatistics
from openbell_server.application.set_fault_plan import SetFaultPlan
from openbell_server.application.set_rules import SetRules
from openbell_server.application.set_symbol_controls import SetSymbolControls
from openbell_server.application.submit_intent import SubmitIntent
from openbell_server.brokers.paper.fault_client import fault_plans
from openbell_server.brokers.registry import BROKERS, spelled_at
from openbell_server.processes.calendar_ends import watch_calendars
from openbell_server.processes.callers import access_tokens, authentication, identity_provider
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
from openbell_server.transport.rest.external_orders import external_order_route
from openbell_server.transport.rest.fault_plans import fault_plan_routes
from openbell_server.transport.rest.halt_reports import halt_report_route
from openbell_server.transport.rest.intents import intent_routes
from openbell_server.transport.rest.operations import operations_route
from openbell_server.transport.rest.organizations import organization_route
from openbell_server.transport.rest.outbox_health import outbox_health_route
from openbell_server.transport.rest.receipts import receipt_routes
from openbell_server.transport.rest.references import reference_routes
from openbell_server.transport.rest.rules import rule_routes
from openbell_server.transport.rest.users import user_route

CONNECTIONS_MAX = 2048


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
) -> ASGIApp:
    """The REST application on a database."""
    organizations, intents, ids = PostgresOrganizationStore(pool), PostgresIntentStore(pool), DatabaseClock(pool)
    authenticate, controls = authentication(pool, tokens), PostgresControlStore(pool)
    enter = Enter(authenticate, limit)
    calendars, changes = load_calendars(), PostgresSessionChanges(pool)
    judge = JudgeCommand(
        PostgresRuleBookStore(pool, RuleBooks(spelled_at)),
        intents,
        PostgresMarketStore(pool),
        PostgresCountedAcceptStore(pool),
        calendars,
    )
    submit = SubmitIntent(organizations, intents, controls, judge, ids, BROKERS, hints, DOUBTFUL, UNAVAILABLE)
    backtest = BacktestRules(organizations, judge.books, PostgresHistoryStore(pool), BROKERS, calendars, changes)
    read = ReadIntents(organizations, intents, BROKERS, cursor_key)
    external_orders = ReadExternalOrders(organizations, partial(list_external_orders, pool), cursor_key)
    statistics = ReadStatistics(organizations, PostgresStatisticsStore(pool))
    account_records, key_records = PostgresAccountRecords(pool, ids), PostgresApiKeyRecords(pool, ids)
    manage_accounts = ManageAccounts(organizations, account_records, BROKERS, hints, cursor_key)
    look_up = LookUpOrganization(PostgresTokenCallerStore(pool), provider_name, provider, time.monotonic)
    credentials = PostgresCredentialStore(pool, ids)
    references = GiveReferences(organizations, account_records, PostgresMarketStore(pool), BROKERS, ids)
    routes: list[ControllerRouterHandler] = [
        broker_route(enter, BROKERS),
        *calendar_routes(enter, calendars, changes, ids.now),
        account_routes(enter, manage_accounts),
        fault_plan_routes(enter, SetFaultPlan(organizations, account_records, plans)),
        intent_routes(enter, submit, read, statistics),
        external_order_route(enter, external_orders),
        control_routes(enter, SetSymbolControls(organizations, controls, BROKERS, calendars, changes)),
        *receipt_routes(enter, ReadReceipts(organizations, PostgresReceiptStore(pool), cursor_key)),
        evaluation_route(enter, EvaluateCommand(organizations, intents, judge, BROKERS)),
        halt_report_route(enter, ReadHaltReport(organizations, PostgresHaltReports(pool))),
        backtest_route(enter, backtest),
        *rule_routes(enter, SetRules(organizations, key_records, PostgresRuleStore(pool), BROKERS, cursor_key)),
        *reference_routes(enter, references),
        credential_routes(enter, ManageCredentials(organizations, credentials, BROKERS, ids, vault, hints)),
        api_key_routes(enter, ManageApiKeys(key_records, cursor_key, os.urandom)),
        validation_routes(authenticate, limit),
        organization_route(enter, look_up),
        user_route(enter, DeleteUser(PostgresUserDeletionStore(pool), provider_name, provider)),
        outbox_health_route(enter, lambda: count_account_outbox(pool)),
        operations_route(enter, lambda: read_queues(pool, Role.HEALTH)),
    ]
    return build_app(routes, lambda: check_writing(pool), error_renderer(UNAVAILABLE, OUTDATED), observe)


async def serve(settings: Settings, stopping: asyncio.Event, operations: Operations) -> None:
    """Serve REST until stopping is set."""
    async with (
        await open_pool(settings.require("database_url"), connections_max=16) as pool,
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
        connecting = asyncio.ensure_future(hints.run())
        cursor_key, observe = settings.require("cursor_secret").encode(), watch_requests(operations)
        provider_name, vault = settings.identity_provider, sealer(settings)
        app = rest_app(pool, hints, cursor_key, tokens, limit, provider_name, provider, vault, plans, observe)
        try:
            await serve_http(
                app,
                settings.api_host,
                settings.api_port,
                stopping,
                connections_max=CONNECTIONS_MAX,
                ready=notify_ready,
            )
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
