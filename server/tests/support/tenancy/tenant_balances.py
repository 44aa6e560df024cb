"""Balances of an account that somebody reads, and its books."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.money.balances import PostgresBalanceStore
from openbell_server.adapters.postgres.money.books import PostgresBookStore
from openbell_server.adapters.postgres.money.losses import PostgresLossStore
from openbell_server.application.events.account_log import log_balances_changed
from openbell_server.application.money.ports import AnnouncedBreach
from openbell_server.application.money.save_books import SaveBooks
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.losses import LossLimit
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.money.balances import Balances
from support.tenancy.statements import Owner


async def add_balances(pool: Pool, account: BrokerAccount) -> None:
    """A row of each table, and the event."""
    async with PostgresExecutionStore(pool).account_transaction(account) as locked:
        balances = Balances(currency="USD", cash=Decimal(100), buying_power=Decimal(100), as_of=datetime.now(UTC))
        assert await locked.save_balances(balances)
        log_balances_changed(locked, balances)
    assert await PostgresBalanceStore(pool).read_balances(account.organization_id, account.account_id) is not None
    # So long ago that the next read is recorded too.
    async with transaction(pool, Role.TENANT, account.organization_id) as connection:
        await connection.execute("update wanted_balances set wanted_at = wanted_at - interval '1 minute'")


async def add_books(pool: Pool, account: BrokerAccount) -> None:
    """Books and figures of what the account traded."""
    store = PostgresBookStore(pool)
    await SaveBooks(store, store, events_behind=1)([account.slot])


async def add_losses(pool: Pool, account: TradingAccount) -> None:
    """A loss beyond a limit, and its event."""
    rule = Rule(
        code="LOSS_MAX",
        scope=Scope.ACCOUNT,
        subject=str(account.id),
        symbol=None,
        api_key_id=None,
        parameters=None,
        mode=Mode.HARD,
        on_missing=None,
        version=1,
    )
    breach, store = AnnouncedBreach(rule, LossLimit(Decimal(1), "USD")), PostgresLossStore(pool)
    for profit in (0, -2):
        now = await pool.fetchval("select clock_timestamp()")
        await store.keep_loss(account, ("USD", "UTC"), now.date(), Decimal(profit), now, [breach])


async def values_of_books(owner: Owner, account_id: AccountId) -> dict[str, Any]:
    """A book and a figure to save, and days with every trade."""
    now = datetime.now(UTC)
    turnover = ("bought_quantity", "bought_value", "sold_quantity", "sold_value")
    sums = ("realized_average", "realized_fifo", "fees", *turnover)
    figures = {"symbol": "AAPL", **dict.fromkeys(sums, "1"), "trades": 1, "unknown": 0, "without_fee": 0}
    book = {"quantity": "1", "cost": "1", "lots": [], "last_traded_at": now.isoformat(), "last_trade_id": "e"}
    saved = await owner.fetchval("select event_no from openbell.book_heads where account_id = $1", account_id)
    return {
        "saved_event_no": saved,
        "events_behind": 1,
        "books": json.dumps([figures | book]),
        "figures": json.dumps([figures | {"period": now.isoformat()}]),
        "left_out": [],
        "only_symbol": None,
        "platform_id": UUID(int=0),
        "bodies": ['{"code": "LOSS_MAX"}'],
        "timezone": "UTC",
        "day": now.date(),
        **dict.fromkeys(("opening", "highest", "profit", "lost_from_opening", "lost_from_highest"), 0),
        "as_of": now,
        "announced": [],
        "day_starts": [now - timedelta(days=3650), now + timedelta(days=1)],
    }
