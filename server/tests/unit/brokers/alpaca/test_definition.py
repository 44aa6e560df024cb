"""What Alpaca is declared to be: its symbols, its hosts, its keys."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from openbell_server.brokers.alpaca.definition import ALPACA
from openbell_server.brokers.alpaca.session import DATA_ADDRESS, AlpacaSession
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignInRefused
from openbell_server.domain.identifiers import CLIENT_ORDER_ID_LENGTH
from openbell_server.domain.orders.broker_reports import NotSent
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import TimeInForce
from support.brokers.alpaca_orders import ACCOUNT
from support.brokers.paper_broker import named, new_order, replacement


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("AAPL", "AAPL"),
        ("aapl", "AAPL"),
        ("BRK.B", "BRK.B"),
        ("BRK/B", "BRK.B"),
        ("brk-b", "BRK.B"),
        ("BF/A", "BF.A"),
        ("ACME.WS", "ACME.WS"),
        ("BTC/USD", None),
        ("BRK_B", None),
        ("BRK:B", None),
        ("", None),
        ("ß", None),
    ],
)
def test_a_symbol_has_one_spelling(text: str, symbol: str | None) -> None:
    assert ALPACA.canonical_symbol(text) == symbol


def test_a_replace_is_never_repeated_and_a_create_may_be() -> None:
    assert ALPACA.capabilities.may_repeat(ActionType.CREATE)
    assert not ALPACA.capabilities.may_repeat(ActionType.REPLACE)
    assert TimeInForce.EXT not in ALPACA.capabilities.times_in_force
    assert BROKERS["alpaca"] is ALPACA


def test_our_ids_fit_its_shortest_bound() -> None:
    assert CLIENT_ORDER_ID_LENGTH <= 48


def _signed_in(environment: Environment, key_id: str) -> object:
    async def ask() -> object:
        session = AlpacaSession({Environment.PAPER: "http://127.0.0.1:1", Environment.LIVE: "http://127.0.0.1:1"})
        try:
            return await session.sign_in(ACCOUNT, environment, Secrets({"key_id": key_id, "secret": "s"}))
        finally:
            await session.close()

    return asyncio.run(ask())


@pytest.mark.parametrize(("environment", "key_id"), [(Environment.PAPER, "AK123"), (Environment.LIVE, "PK123")])
def test_a_key_of_the_other_environment_is_refused_before_it_is_sent_anywhere(
    environment: Environment, key_id: str
) -> None:
    answer = _signed_in(environment, key_id)
    assert isinstance(answer, SignInRefused)
    assert answer.broker_code == "WRONG_ENVIRONMENT"
    assert f"Alpaca's {environment} dashboard" in answer.broker_text


def test_prices_are_asked_for_at_alpacas_own_place_only_beside_its_own_hosts() -> None:
    own = AlpacaSession(ALPACA.addresses)
    elsewhere = AlpacaSession({Environment.PAPER: "http://127.0.0.1:1"})
    assert {str(host.data.address) for host in own._hosts.values()} == {DATA_ADDRESS}
    assert {str(host.data.address) for host in elsewhere._hosts.values()} == {"http://127.0.0.1:1"}
    assert own._hosts[Environment.PAPER].stream == "wss://paper-api.alpaca.markets/stream"
    assert own._hosts[Environment.LIVE].stream == "wss://api.alpaca.markets/stream"


def test_an_account_that_is_not_signed_in_sends_nothing() -> None:
    async def ask() -> list[object]:
        session, order = AlpacaSession(ALPACA.addresses), new_order()
        made = replace(replacement(order, Decimal(1)), order=named("x", "A"))
        outcomes: list[object] = [
            await session.submit(order),
            await session.replace(made),
            await session.cancel(order.account_id, named("x", "A"), datetime.now(UTC)),
        ]
        await session.close()
        return outcomes

    assert {type(outcome) for outcome in asyncio.run(ask())} == {NotSent}
