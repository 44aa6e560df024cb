"""What goes wrong at the engine goes wrong at Alpaca's loopback, in Alpaca's words."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from loopbacks import Loopback
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId
from openbell_torture.alpaca.wire import key_id_of
from support.brokers.paper_broker import ACCOUNT, ask, until

NEIGHBOUR = AccountId(UUID("00000000-0000-7000-8000-000000000002"))
SECONDS = 60
Update = dict[str, Any]


@asynccontextmanager
async def client_of(
    alpaca: Loopback, account_id: AccountId = ACCOUNT, environment: Environment = Environment.PAPER
) -> AsyncIterator[httpx.AsyncClient]:
    headers = {
        "APCA-API-KEY-ID": key_id_of(account_id, is_live=environment is Environment.LIVE),
        "APCA-API-SECRET-KEY": "secret",
    }
    address = alpaca.addresses[environment]
    async with httpx.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=SECONDS) as client:
        yield client


@asynccontextmanager
async def stream_of(
    alpaca: Loopback, account_id: AccountId = ACCOUNT, environment: Environment = Environment.PAPER
) -> AsyncIterator[ClientConnection]:
    """A stream that tells of orders from here on, signed in as the documentation says."""
    address = alpaca.addresses[environment].replace("http:", "ws:") + "/stream"
    async with connect(address, proxy=None) as stream:
        key = {"key": key_id_of(account_id, is_live=environment is Environment.LIVE), "secret": "secret"}
        assert (await said(stream, {"action": "auth", **key}))["data"]["status"] == "authorized"
        listen = {"action": "listen", "data": {"streams": ["trade_updates", "unheard_of"]}}
        assert (await said(stream, listen))["data"] == {"streams": ["trade_updates"]}
        yield stream


async def said(stream: ClientConnection, message: Mapping[str, object]) -> Update:
    await stream.send(json.dumps(message))
    return await heard(stream)


async def heard(stream: ClientConnection) -> Update:
    async with asyncio.timeout(SECONDS):
        answer: Update = json.loads(await stream.recv())
    return answer


async def until_said(stream: ClientConnection, last: str) -> list[Update]:
    """What is told up to an event of this name."""
    updates: list[Update] = []
    while not updates or updates[-1]["event"] != last:
        updates.append((await heard(stream))["data"])
    return updates


def an_order(limit_price: str = "90", qty: str = "10") -> dict[str, str]:
    return {
        "symbol": "AAPL",
        "qty": qty,
        "side": "buy",
        "type": "limit",
        "limit_price": limit_price,
        "time_in_force": "day",
        "client_order_id": uuid4().hex,
    }


async def faults(alpaca: Loopback, **rates: float) -> None:
    answer = await ask(alpaca.engine, "PUT", f"/accounts/{ACCOUNT}/faults", {"seed": 1, "faults": rates})
    assert answer.is_success


async def find(client: httpx.AsyncClient, order: dict[str, str]) -> httpx.Response:
    params = {"client_order_id": order["client_order_id"]}
    return await client.get("/v2/orders:by_client_order_id", params=params)


async def test_a_connection_that_the_engine_cuts_is_cut(alpaca: Loopback) -> None:
    await faults(alpaca, accept_then_reset=1)
    order = an_order()
    async with client_of(alpaca) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="disconnected"):
            await client.post("/v2/orders", json=order)
        assert (await find(client, order)).status_code == 200


async def test_a_command_that_hangs_at_the_engine_hangs_and_may_be_done_later(alpaca: Loopback) -> None:
    await faults(alpaca, accept_late=1, late_ms=200)
    order = an_order()
    async with client_of(alpaca) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v2/orders", json=order, timeout=0.1)

        async def is_there() -> bool:
            return (await find(client, order)).status_code == 200

        await until(is_there)


async def test_too_many_calls_are_turned_away_with_a_time_to_come_back(alpaca: Loopback) -> None:
    await faults(alpaca, too_many_requests_until=1)
    async with client_of(alpaca) as client:
        answer = await client.post("/v2/orders", json=an_order())
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (429, 42910000, "2")


async def test_a_no_to_an_order_that_was_placed_looks_like_any_other(alpaca: Loopback) -> None:
    await faults(alpaca, refused_but_placed=1)
    order = an_order()
    async with client_of(alpaca) as client:
        answer = await client.post("/v2/orders", json=order)
        assert (answer.status_code, answer.json()["message"]) == (403, "order not permitted")
        assert (await find(client, order)).json()["status"] == "new"


@pytest.mark.parametrize(
    ("fault", "method", "status"),
    [("refused_but_replaced", "PATCH", "replaced"), ("refused_but_canceled", "DELETE", "canceled")],
)
async def test_a_no_to_a_change_that_was_made_looks_like_any_other(
    alpaca: Loopback, fault: str, method: str, status: str
) -> None:
    order = an_order()
    async with client_of(alpaca) as client:
        name = (await client.post("/v2/orders", json=order)).json()["id"]
        await faults(alpaca, **{fault: 1})
        answer = await client.request(method, f"/v2/orders/{name}", json={"qty": "3"} if method == "PATCH" else None)
        assert answer.status_code == 422
        assert answer.json()["message"]
        assert (await find(client, order)).json()["status"] == status


async def test_an_order_is_found_and_listed_no_sooner_than_the_engine_finds_it(alpaca: Loopback) -> None:
    await faults(alpaca, find_lag_ms=10_000)
    order = an_order()
    async with client_of(alpaca) as client:
        taken = await client.post("/v2/orders", json=order)
        assert taken.status_code == 200
        assert (await find(client, order)).status_code == 404
        assert (await client.get("/v2/orders", params={"status": "all"})).json() == []
        await faults(alpaca)
        assert (await find(client, order)).json()["id"] == taken.json()["id"]


async def test_the_stream_is_cut_when_the_engines_feed_is(alpaca: Loopback) -> None:
    await faults(alpaca, session_reset=1)
    async with client_of(alpaca) as client, stream_of(alpaca) as stream:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/v2/orders", json=an_order())
        with pytest.raises(ConnectionClosed):
            await until_said(stream, "nothing of the kind")
    async with stream_of(alpaca):
        pass


async def test_fills_are_told_twice_or_backwards_where_the_engine_does_so(alpaca: Loopback) -> None:
    await faults(alpaca, duplicate_fills=1)
    async with client_of(alpaca) as client, stream_of(alpaca) as stream:
        await client.post("/v2/orders", json=an_order("100", "4"))
        await until_said(stream, "fill")
        again = (await heard(stream))["data"]
        assert (again["event"], again["order"]["filled_qty"]) == ("fill", "4")
        await faults(alpaca, reorder_fills=1)
        await client.post("/v2/orders", json=an_order("100", "4"))
        assert (await until_said(stream, "new"))[0]["event"] == "fill"


async def test_a_fill_that_was_taken_back_or_corrected_shows_in_the_order_and_the_activities(alpaca: Loopback) -> None:
    await faults(alpaca, bust=1, late_ms=50)
    async with client_of(alpaca) as client, stream_of(alpaca) as stream:
        await client.post("/v2/orders", json=an_order("100", "4"))
        taken_back = (await until_said(stream, "restated"))[-1]
        assert taken_back["order"]["filled_qty"] == "0"
        assert (await client.get("/v2/account/activities/FILL")).json() == []
        await faults(alpaca, correct=1, late_ms=50)
        await client.post("/v2/orders", json=an_order("100", "4"))
        corrected = (await until_said(stream, "restated"))[-1]
        assert corrected["order"]["filled_avg_price"] == "100.01"
        (fill,) = (await client.get("/v2/account/activities/FILL")).json()
        assert (fill["price"], fill["cum_qty"]) == ("100.01", "4")


@pytest.mark.parametrize(("environment", "kind"), [(Environment.PAPER, bytes), (Environment.LIVE, str)])
async def test_each_account_hears_of_itself_in_the_frames_of_its_address(
    alpaca: Loopback, environment: Environment, kind: type
) -> None:
    async with (
        client_of(alpaca, ACCOUNT, environment) as client,
        client_of(alpaca, NEIGHBOUR, environment) as neighbour,
        stream_of(alpaca, ACCOUNT, environment) as stream,
        stream_of(alpaca, ACCOUNT, environment) as second,
    ):
        await neighbour.post("/v2/orders", json=an_order())
        mine = (await client.post("/v2/orders", json=an_order())).json()
        for each in (stream, second):
            frame = await asyncio.wait_for(each.recv(), SECONDS)
            assert isinstance(frame, kind)
            assert json.loads(frame)["data"]["order"]["id"] == mine["id"]


async def test_the_stream_takes_no_wrong_key_and_tells_nobody_unknown(alpaca: Loopback) -> None:
    address = alpaca.addresses[Environment.PAPER].replace("http:", "ws:") + "/stream"
    listen = {"action": "listen", "data": {"streams": ["trade_updates"]}}
    for key, secret in ((Environment.LIVE, "secret"), (Environment.PAPER, "wrong")):
        async with connect(address, proxy=None) as stream:
            assert (await said(stream, listen))["data"]["status"] == "unauthorized"
            signed = {"key_id": key_id_of(ACCOUNT, is_live=key is Environment.LIVE), "secret_key": secret}
            answer = await said(stream, {"action": "authenticate", "data": signed})
            assert answer["data"]["status"] == "unauthorized"
            with pytest.raises(ConnectionClosed):
                await heard(stream)


async def test_numbers_are_strings_with_all_their_digits_and_quotes_are_numbers(alpaca: Loopback) -> None:
    async with client_of(alpaca) as client:
        order = (await client.post("/v2/orders", json=an_order("99.0001", "3.123456789"))).json()
        assert (order["qty"], order["limit_price"]) == ("3.123456789", "99.0001")
        too_fine = await client.post("/v2/orders", json=an_order(qty="1.0000000001"))
        assert too_fine.status_code == 422
        quotes = await client.get("/v2/stocks/quotes/latest", params={"symbols": "AAPL"})
        assert json.loads(quotes.content, parse_int=Decimal)["quotes"]["AAPL"]["bp"] == Decimal(100)
