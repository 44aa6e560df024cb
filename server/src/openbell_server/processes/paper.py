"""Runs the paper broker: its ledger served over HTTP."""

import asyncio
from datetime import UTC, datetime

import structlog

from openbell_exchange.faults import parse_faults
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.postgres.connection import UNREACHABLE, describe_error
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.market import Market
from openbell_server.brokers.paper.prices import parse_prices
from openbell_server.brokers.paper.server import PaperApplication
from openbell_server.brokers.paper.wire import AccountRules
from openbell_server.http_protocol import Connections
from openbell_server.processes.http_server import serve_http
from openbell_server.processes.operations_port import NotReady, Operations
from openbell_server.settings import Settings

# Limits memory: each connection has at most one command waiting.
CONNECTIONS_MAX = 512


async def serve(settings: Settings, stopping: asyncio.Event, operations: Operations, _: JetStreamConnection) -> None:
    """Serve until stopping is set, then end the feeds and finish the open commands."""
    faults = parse_faults(settings.paper_faults)
    prices = parse_prices(settings.paper_prices, datetime.now(UTC))
    ledger = await Ledger.open(settings.require("paper_database_url"))
    try:
        market = Market(ledger, prices, any_symbol=settings.paper_any_symbol)
        rules = AccountRules(settings.paper_shorting, settings.paper_any_tick)
        secret = settings.paper_secret.get_secret_value()
        application = PaperApplication(ledger, market, faults, rules, secret)
        operations.need("ledger", lambda: _check(ledger))
        async with asyncio.TaskGroup() as tasks:
            passing = tasks.create_task(_keep_time(market))
            await serve_http(
                application,
                settings.paper_host,
                settings.paper_port,
                stopping,
                connections=Connections(CONNECTIONS_MAX, CONNECTIONS_MAX),
                ready=operations.part_started,
                before_stop=application.close,
            )
            passing.cancel()
    finally:
        await ledger.close()


async def _keep_time(market: Market) -> None:
    """Advance the market's time; retries while the database is unavailable."""
    while True:
        try:
            await market.pass_time(datetime.now(UTC))
        except UNREACHABLE as error:
            structlog.get_logger().warning("paper_market_stands_still", why=describe_error(error))
        await asyncio.sleep(market.look_seconds)


async def _check(ledger: Ledger) -> None:
    try:
        async with ledger.writing():
            pass
    except UNREACHABLE as error:
        raise NotReady(f"the paper broker's database takes no writes: {describe_error(error)}") from error
