"""What Tradier is declared to be: its symbols, its ids, and what it cannot do."""

import asyncio
import re
from datetime import UTC, datetime
from decimal import Decimal
from urllib.parse import parse_qs

import pytest

from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.brokers.http_client import BrokerHttp
from openbell_server.brokers.registry import BROKERS
from openbell_server.brokers.tradier.account import TradierAccount
from openbell_server.brokers.tradier.definition import TRADIER
from openbell_server.brokers.tradier.outcomes import POST
from openbell_server.brokers.tradier.session import TradierSession, form_of
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import BASE62, CLIENT_ORDER_ID_LENGTH
from openbell_server.domain.orders.broker_reports import NotSent
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType
from support.brokers.paper_broker import ACCOUNT, named, new_order, replacement


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("aapl", "AAPL"),
        ("BRK/B", "BRK/B"),
        ("BRK.B", "BRK/B"),
        ("brk-b", "BRK/B"),
        ("BTC/USD", None),
        ("BRK_B", None),
        ("", None),
    ],
)
def test_a_symbol_has_one_spelling(text: str, symbol: str | None) -> None:
    assert TRADIER.canonical_symbol(text) == symbol


def test_our_ids_are_tags_as_tradier_has_them() -> None:
    assert re.fullmatch("[A-Za-z0-9-]+", BASE62)
    assert CLIENT_ORDER_ID_LENGTH <= 255


def test_nothing_is_written_again_but_a_cancel_and_nothing_is_replaced() -> None:
    able = BROKERS["tradier"].capabilities
    assert not any(able.may_repeat(command) for command in ActionType)
    assert able.repeats_cancels
    assert able.replace is ReplaceSupport.NONE


def test_an_order_is_written_to_its_last_digit_and_as_a_form() -> None:
    host = BrokerHttp("http://tradier")
    secrets = Secrets({"account": "VA1", "token": "t"})
    account = TradierAccount(ACCOUNT, Environment.PAPER, host, secrets)
    order = new_order(
        OrderType.STOP_LIMIT,
        client_order_id="our-id",
        symbol="BRK/B",
        quantity=Decimal("1E+3"),
        limit_price=Decimal("123456789012345678.123456789012345678"),
        stop_price=Decimal("0.000000000000000001"),
    )
    request = account.command(POST, account.path("orders"), form_of(order))
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.content is not None
    assert parse_qs(request.content.decode()) == {
        "class": ["equity"],
        "symbol": ["BRK/B"],
        "side": ["buy"],
        "quantity": ["1000"],
        "type": ["stop_limit"],
        "duration": ["day"],
        "tag": ["our-id"],
        "price": ["123456789012345678.123456789012345678"],
        "stop": ["0.000000000000000001"],
    }


def test_without_a_token_a_name_or_a_way_to_replace_nothing_is_sent() -> None:
    async def ask() -> list[object]:
        session = TradierSession({Environment.PAPER: "http://127.0.0.1:1"})
        try:
            return [
                await session.submit(new_order()),
                await session.replace(replacement(new_order(), None)),
                await session.cancel(ACCOUNT, named("ours"), datetime.now(UTC)),
            ]
        finally:
            await session.close()

    assert all(isinstance(outcome, NotSent) for outcome in asyncio.run(ask()))
