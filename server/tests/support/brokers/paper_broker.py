"""A paper broker to test against, with orders for it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import httpx
from pydantic import SecretStr

from openbell_exchange.matching import reference_price
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.application.ports.broker import BrokerOrder, BrokerReplacement, FeedItem
from openbell_server.brokers.paper.profiles import PAPER, Profile
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import OPERATOR_HEADER
from openbell_server.devtools.child_processes import free_port
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_reports import OrderName, OrderReport, Outcome
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, Terms, TimeInForce
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.paper import serve
from openbell_server.settings import Settings

ACCOUNT = AccountId(UUID("00000000-0000-7000-8000-000000000001"))
AAPL = Symbol("AAPL")
PRICE = reference_price(AAPL)
Feed = AsyncIterator[FeedItem]
OPERATOR = {OPERATOR_HEADER: "the operator's"}


def settings_of(ledger_url: str, faults: str = "", port: int | None = None, prices: str = "") -> Settings:
    """It takes every valid order, so that tests may sell short, and trade symbols of their own."""
    return Settings(
        database_url=SecretStr(""),
        paper_database_url=SecretStr(ledger_url),
        cursor_secret=SecretStr("unused"),
        paper_port=port or free_port(),
        paper_faults=faults,
        paper_prices=prices,
        paper_secret=SecretStr(OPERATOR[OPERATOR_HEADER]),
        paper_shorting=True,
        paper_any_tick=True,
        paper_any_symbol=True,
    )


def strict(settings: Settings) -> Settings:
    """The same with the rules that apply unless an operator lifts them."""
    return settings.model_copy(update={"paper_shorting": False, "paper_any_tick": False, "paper_any_symbol": False})


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def healthy(address: str) -> bool:
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as client:
        try:
            return (await client.get("/healthz")).status_code == 200
        except httpx.HTTPError:
            return False


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[None]:
    """The process's own `serve` in this loop."""
    stopping = asyncio.Event()
    served = asyncio.ensure_future(serve(settings, stopping, Operations("paper"), JetStreamConnection("")))
    try:
        await until(lambda: healthy(settings.paper_url))
        yield
    finally:
        stopping.set()
        await asyncio.wait_for(served, 60)


@asynccontextmanager
async def running(settings: Settings, profile: Profile = PAPER) -> AsyncIterator[PaperSession]:
    """The broker in this loop, and a session with it."""
    async with serving(settings):
        session = PaperSession(settings.paper_url, profile)
        try:
            yield session
        finally:
            await session.close()


def new_order(order_type: OrderType = OrderType.MARKET, **changes: object) -> BrokerOrder:
    order = BrokerOrder(
        account_id=ACCOUNT,
        client_order_id=uuid4().hex,
        symbol=AAPL,
        order_side=OrderSide.BUY,
        order_type=order_type,
        route_strategy=RouteStrategy.SMART,
        quantity=Decimal("10.5"),
        limit_price=None,
        stop_price=None,
        time_in_force=TimeInForce.DAY,
        valid_until=soon(),
    )
    return replace(order, **changes)  # type: ignore[arg-type]


def resting() -> BrokerOrder:
    return new_order(OrderType.LIMIT, limit_price=PRICE - 1)


def replacement(order: BrokerOrder, limit_price: Decimal | None, **changes: object) -> BrokerReplacement:
    """The order with another limit, of twice the quantity."""
    terms = Terms(
        quantity=order.quantity * 2,
        limit_price=limit_price,
        stop_price=order.stop_price,
        time_in_force=order.time_in_force,
    )
    made = BrokerReplacement(
        account_id=order.account_id,
        order=named(order.client_order_id),
        client_order_id=uuid4().hex,
        terms=terms,
        filled_quantity=Decimal(0),
        valid_until=soon(),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=120)


def named(client_order_id: str, *broker_order_ids: str) -> OrderName:
    return OrderName(client_order_id=client_order_id, broker_order_ids=broker_order_ids)


async def found(session: PaperSession, order: BrokerOrder) -> OrderReport:
    report = await session.find(order.account_id, named(order.client_order_id))
    assert report is not None
    return report


async def ask(settings: Settings, method: str, path: str, body: object = None) -> httpx.Response:
    async with httpx.AsyncClient(base_url=settings.paper_url, trust_env=False, timeout=60) as client:
        return await client.request(method, path, json=body, headers=OPERATOR)


async def summary(settings: Settings) -> dict[str, int]:
    response = await ask(settings, "GET", "/ledger/summary")
    return dict(response.json())


async def next_report(feed: Feed) -> tuple[AccountId, OrderReport] | None:
    """Of a feed that tells of all accounts."""
    async with asyncio.timeout(60):
        item = await anext(feed)
    if item is None:
        return None
    account_id, report = item
    assert report is not None
    return account_id, report


def kind(outcome: Outcome) -> type[Outcome]:
    return type(outcome)


@asynccontextmanager
async def subprocess_of(settings: Settings) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process as a process of its own, serving; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "openbell_server",
        "paper",
        env={
            **os.environ,
            "OPENBELL_DATABASE_URL": "",
            "OPENBELL_CURSOR_SECRET": "unused",
            "OPENBELL_PAPER_DATABASE_URL": settings.paper_database_url.get_secret_value(),
            "OPENBELL_PAPER_PORT": str(settings.paper_port),
            "OPENBELL_PAPER_FAULTS": settings.paper_faults,
            "OPENBELL_PAPER_PRICES": settings.paper_prices,
            "OPENBELL_PAPER_SECRET": settings.paper_secret.get_secret_value(),
            "OPENBELL_PAPER_SHORTING": str(settings.paper_shorting),
            "OPENBELL_PAPER_ANY_TICK": str(settings.paper_any_tick),
            "OPENBELL_PAPER_ANY_SYMBOL": str(settings.paper_any_symbol),
        },
    )
    try:
        await until(lambda: healthy(settings.paper_url), 60)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
