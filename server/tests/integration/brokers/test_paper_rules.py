"""What the paper broker refuses unless an operator permits it, and its operator routes, on real PostgreSQL."""

from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from openbell_server.application.ports.broker import BrokerOrder
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import OPERATOR_HEADER
from openbell_server.domain.identifiers import Symbol
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused, Unknown
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from support.brokers.paper_broker import (
    AAPL,
    ACCOUNT,
    PRICE,
    ask,
    kind,
    new_order,
    replacement,
    running,
    settings_of,
    strict,
    summary,
)

OTHER = "00000000-0000-7000-8000-000000000002"


def refusal(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, Refused), outcome
    return outcome.broker_code, outcome.broker_text


def sell(quantity: str, side: OrderSide = OrderSide.SELL, limit_price: Decimal | None = None) -> BrokerOrder:
    order_type = OrderType.MARKET if limit_price is None else OrderType.LIMIT
    return new_order(order_type, order_side=side, quantity=Decimal(quantity), limit_price=limit_price)


def limit(price: str) -> BrokerOrder:
    return new_order(OrderType.LIMIT, limit_price=Decimal(price))


async def buy(session: PaperSession, quantity: str) -> None:
    assert kind(await session.submit(new_order(quantity=Decimal(quantity)))) is Accepted


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("APPL", "APPL is not listed here; did you mean AAPL, APP, PPL?"),
        ("ZZZZ", "ZZZZ is not listed here, and no listed symbol is similar"),
    ],
)
async def test_an_unlisted_symbol_is_refused_with_the_nearest_ones(ledger_url: str, symbol: str, text: str) -> None:
    settings = strict(settings_of(ledger_url))
    async with running(settings) as session:
        assert refusal(await session.submit(new_order(symbol=Symbol(symbol)))) == ("unknown_symbol", text)
        assert await session.positions(ACCOUNT) == []
        assert (await summary(settings))["refused"] == 1


async def test_an_unlisted_symbol_has_no_instrument_and_no_quote(ledger_url: str) -> None:
    settings = strict(settings_of(ledger_url))
    async with running(settings) as session:
        asked = [Symbol("APPL"), AAPL]
        assert [each.symbol for each in await session.instruments(ACCOUNT, asked)] == [AAPL]
        assert [each.symbol for each in await session.quotes(ACCOUNT, asked)] == [AAPL]


async def test_a_symbol_is_listed_while_its_price_is_set(ledger_url: str) -> None:
    settings = strict(settings_of(ledger_url))
    async with running(settings) as session:
        order = new_order(symbol=Symbol("ZZZZ"))
        assert (await ask(settings, "PUT", "/prices/ZZZZ", {"price": "7"})).status_code == 200
        assert kind(await session.submit(order)) is Accepted
        assert (await ask(settings, "DELETE", "/prices/ZZZZ")).status_code == 200
        assert refusal(await session.submit(new_order(symbol=Symbol("ZZZZ"))))[0] == "unknown_symbol"
        # The first order exists, so a second copy of its command is not refused for good.
        assert kind(await session.submit(order)) is Unknown


async def test_the_symbols_of_a_price_file_are_listed(ledger_url: str, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("0,MADE.UP,12.50\n")
    settings = strict(settings_of(ledger_url, prices=f"csv:{tmp_path / 'prices.csv'}"))
    async with running(settings) as session:
        assert kind(await session.submit(new_order(symbol=Symbol("MADE.UP")))) is Accepted
        assert kind(await session.submit(new_order())) is Accepted


async def test_a_sell_of_nothing_held_is_refused(ledger_url: str) -> None:
    async with running(strict(settings_of(ledger_url))) as session:
        assert refusal(await session.submit(sell("1"))) == (
            "insufficient_position",
            "the account holds no AAPL, and shorting is off for this account",
        )
        assert refusal(await session.submit(sell("1", OrderSide.SELL_SHORT))) == (
            "shorting_off",
            "shorting is off for this account",
        )


async def test_shares_in_working_sells_cannot_be_sold_again(ledger_url: str) -> None:
    async with running(strict(settings_of(ledger_url))) as session:
        await buy(session, "10")
        resting = sell("6", limit_price=PRICE + 1)
        assert kind(await session.submit(resting)) is Accepted
        assert refusal(await session.submit(sell("5"))) == (
            "insufficient_position",
            "the account holds 10 AAPL, of which 6 are in working sells, and shorting is off for this account",
        )
        twice = await session.replace(replacement(resting, PRICE + 2))
        assert refusal(twice)[0] == "insufficient_position"
        assert kind(await session.submit(sell("4"))) is Accepted
        assert [each.quantity for each in await session.positions(ACCOUNT)] == [Decimal(6)]


async def test_a_second_copy_of_a_sell_is_a_duplicate_also_when_nothing_is_left_to_sell(ledger_url: str) -> None:
    async with running(strict(settings_of(ledger_url))) as session:
        await buy(session, "10")
        everything = sell("10")
        assert kind(await session.submit(everything)) is Accepted
        assert kind(await session.submit(everything)) is Unknown


@pytest.mark.parametrize(
    ("price", "text"),
    [
        ("187.123", "a limit_price of 187.123 is not a multiple of 0.01: use 187.12 or 187.13"),
        ("0.12345", "a limit_price of 0.12345 is not a multiple of 0.0001: use 0.1234 or 0.1235"),
        ("0.00001", "a limit_price of 0.00001 is not a multiple of 0.0001: use 0.0001"),
    ],
)
async def test_a_price_off_the_tick_is_refused_with_the_nearest_ones(ledger_url: str, price: str, text: str) -> None:
    async with running(strict(settings_of(ledger_url))) as session:
        assert refusal(await session.submit(limit(price))) == ("off_tick", text)


async def test_prices_on_the_tick_are_taken_and_a_replace_must_keep_it(ledger_url: str) -> None:
    async with running(strict(settings_of(ledger_url))) as session:
        for price in ("0.1234", "1", "5.10", "5.1000"):
            assert kind(await session.submit(limit(price))) is Accepted
        resting = limit("5.10")
        assert kind(await session.submit(resting)) is Accepted
        assert refusal(await session.replace(replacement(resting, Decimal("5.105"))))[0] == "off_tick"
        assert kind(await session.replace(replacement(resting, Decimal("5.11")))) is Accepted


async def test_an_operator_sets_the_rules_of_one_account(ledger_url: str) -> None:
    settings = strict(settings_of(ledger_url))
    path = f"/accounts/{ACCOUNT}/rules"
    async with running(settings) as session:
        assert (await ask(settings, "GET", path)).json() == {"shorting": False, "any_tick": False}
        lifted = await ask(settings, "PUT", path, {"shorting": True, "any_tick": True})
        assert lifted.json() == {"shorting": True, "any_tick": True}
        assert (await ask(settings, "GET", f"/accounts/{OTHER}/rules")).json()["shorting"] is False
        assert (await ask(settings, "PUT", path, {"shortin": True})).status_code == 400
        assert kind(await session.submit(sell("1"))) is Accepted
        assert kind(await session.submit(sell("1", OrderSide.SELL_SHORT))) is Accepted
        assert kind(await session.submit(limit("1.001"))) is Accepted
    async with running(settings) as session:
        assert kind(await session.submit(sell("1"))) is Accepted, "rules survive a restart"
        assert (await ask(settings, "DELETE", path)).json() == {"shorting": False, "any_tick": False}
        assert refusal(await session.submit(sell("1")))[0] == "insufficient_position"


@pytest.mark.parametrize("secret", [None, "", "wrong", "the operator"])
async def test_an_operator_route_without_its_secret_is_refused(ledger_url: str, secret: str | None) -> None:
    settings = settings_of(ledger_url)
    headers = {} if secret is None else {OPERATOR_HEADER: secret}
    account = f"/accounts/{ACCOUNT}"
    routes = [
        ("PUT", "/prices/AAPL", {"price": "1"}),
        ("DELETE", "/prices/AAPL", None),
        ("PUT", f"{account}/cash", {"cash": "1"}),
        ("POST", "/bells/open", None),
        ("POST", "/bells/close", None),
        *((method, f"{account}/{what}", None) for method in ("GET", "PUT", "DELETE") for what in ("faults", "rules")),
    ]
    async with (
        running(settings),
        httpx.AsyncClient(base_url=settings.paper_url, trust_env=False, timeout=60, headers=headers) as client,
    ):
        for method, path, body in routes:
            answer = await client.request(method, path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (401, "operator_only"), (method, path)
        for path in ("/prices/AAPL", account):
            assert (await client.get(path)).status_code == 200


async def test_without_a_secret_in_its_settings_nobody_operates_the_broker(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    settings = settings.model_copy(update={"paper_secret": type(settings.paper_secret)("")})
    async with (
        running(settings),
        httpx.AsyncClient(base_url=settings.paper_url, trust_env=False, timeout=60) as client,
    ):
        answer = await client.post("/bells/open", headers={OPERATOR_HEADER: ""})
        assert (answer.status_code, answer.json()["code"]) == (401, "operator_only")
