"""What callers read of an account's balances."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.events.account_log import log_balances_changed
from openbell_server.domain.money.balances import Balances
from support.brokers.scripted_broker import Harness
from support.rest.rest_api import RestApi


async def read(api: RestApi, harness: Harness, path: str) -> dict[str, Any]:
    """What the account's key reads at a path that names the account."""
    url = path.format(harness.account.account_id)
    answer = await api.client.get(url, headers={"x-api-key": harness.tenant.key})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_balances_are_null_before_the_first_report_and_then_as_the_broker_reported_them(
    api: RestApi, harness: Harness
) -> None:
    names = ("currency", "cash", "equity", "buying_power", "initial_margin", "maintenance_margin", "as_of", "read_at")
    whose = {"account_id": str(harness.account.account_id), "broker": "paper"}
    assert await read(api, harness, "/v1/accounts/{}/balances") == whose | dict.fromkeys(names)
    # An executor finds the account now.
    store = PostgresExecutionStore(harness.pool)
    slots = {harness.account.slot}
    assert await store.accounts_with_old_balances_across_organizations(slots, 30.0) == [harness.account]
    as_of = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
    amounts = {"cash": Decimal("-12.50"), "equity": Decimal("1E+3"), "buying_power": Decimal(0)}
    async with store.account_transaction(harness.account) as transaction:
        await transaction.save_balances(Balances(currency="USD", as_of=as_of, **amounts))
    told = await read(api, harness, "/v1/accounts/{}/balances")
    assert datetime.fromisoformat(told.pop("read_at")) > as_of
    assert told == {
        **whose,
        "currency": "USD",
        "cash": "-12.50",
        "equity": "1000",
        "buying_power": "0",
        "initial_margin": None,
        "maintenance_margin": None,
        "as_of": "2026-01-05T14:30:00Z",
    }


async def test_a_change_of_cash_is_in_the_list_of_events(api: RestApi, harness: Harness) -> None:
    as_of = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
    async with PostgresExecutionStore(harness.pool).account_transaction(harness.account) as transaction:
        log_balances_changed(transaction, Balances(currency="USD", cash=Decimal("-12.50"), as_of=as_of))
    (event,) = (await read(api, harness, "/v1/events?account_id={}&types=BALANCES_CHANGED"))["data"]
    assert event["balances_changed"] == {"currency": "USD", "cash": "-12.50", "as_of": "2026-01-05T14:30:00Z"}
