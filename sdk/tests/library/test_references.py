"""Reference prices with both clients and by command: what goes out, who it is from, and what is shown."""

import asyncio
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from openbell import AsyncClient, Client, GivenPrice, GivenRate
from openbell.cli import app

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
PRICE = {"broker": "paper", "symbol": "AAPL", "price": "187.50", "as_of": "2026-11-02T12:00:00Z", "source": "given"}
RATE = {"from_currency": "EUR", "to_currency": "USD", "rate": "1.0842", "as_of": "2026-11-02T12:00:00Z"}
RUN = CliRunner(env={"OPENBELL_API_KEY": "key-1", "OPENBELL_ACCOUNT": "a", "NO_COLOR": None})


class Platform:
    """Answers every request and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []
        self.headers: list[dict[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.sent.append((request.method, request.url.raw_path.decode(), body))
        self.headers.append(dict(request.headers))
        is_given = request.method == "PUT"
        return httpx.Response(200, json={"prices": [PRICE], "rates": [RATE]} if is_given else {"data": [PRICE]})


def test_both_clients_give_and_read_the_same() -> None:
    plain, awaited = Platform(), Platform()
    prices = [GivenPrice(broker="paper", symbol="AAPL", price=Decimal("187.50"))]
    rates = [GivenRate(from_currency="EUR", to_currency="USD", rate=Decimal("1.0842"), as_of=NOON)]
    with Client(access_token="t", account_id="a", transport=httpx.MockTransport(plain)) as client:
        kept = client.give_references(prices, rates, organization_id="o")
        assert client.reference_prices(["AAPL", "BRK/B"]) == kept.prices

    async def ask() -> None:
        async with AsyncClient(access_token="t", account_id="a", transport=httpx.MockTransport(awaited)) as client:
            assert await client.give_references(prices, rates, organization_id="o") == kept
            assert await client.reference_prices(["AAPL", "BRK/B"]) == kept.prices

    asyncio.run(ask())
    assert plain.sent == awaited.sent
    assert plain.sent == [
        (
            "PUT",
            "/v1/reference-prices",
            {
                "prices": [{"broker": "paper", "symbol": "AAPL", "price": "187.50"}],
                "rates": [{"from_currency": "EUR", "to_currency": "USD", "rate": "1.0842", "as_of": NOON.isoformat()}],
            },
        ),
        ("GET", "/v1/accounts/a/reference-prices?symbols=AAPL%2CBRK%2FB", None),
    ]
    assert (plain.headers[0]["authorization"], plain.headers[0]["x-organization-id"]) == ("Bearer t", "o")
    assert (kept.prices[0].price, kept.rates[0].rate, kept.rates[0].from_currency) == (
        Decimal("187.50"),
        Decimal("1.0842"),
        "EUR",
    )


def test_commands_give_prices_and_rates_and_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform()
    transport = httpx.MockTransport(platform)
    plain_client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **given: plain_client(**{**given, "transport": transport}))
    given = RUN.invoke(app, ["prices", "give", "AAPL=187.50", "--broker", "paper", "--access-token", "t"])
    assert (given.exit_code, platform.sent[0][2]["prices"]) == (
        0,
        [{"broker": "paper", "symbol": "AAPL", "price": "187.50"}],
    )
    assert given.output.splitlines()[0] == "AAPL at paper: 187.50 (given, 2026-11-02 12:00:00Z)"
    RUN.invoke(app, ["prices", "give", "EUR/USD=1.0842", "--access-token", "t"])
    assert platform.sent[1][2]["rates"] == [{"from_currency": "EUR", "to_currency": "USD", "rate": "1.0842"}]
    shown = RUN.invoke(app, ["prices", "show", "AAPL", "--json"])
    assert json.loads(shown.output)["price"] == "187.50"


@pytest.mark.parametrize("word", ["AAPL", "AAPL=x", "AAPL=1"])
def test_an_entry_that_is_no_price_and_no_rate_is_wrong_usage(word: str) -> None:
    assert RUN.invoke(app, ["prices", "give", word, "--access-token", "t"]).exit_code == 2
