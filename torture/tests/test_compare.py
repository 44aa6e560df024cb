"""What is found in a run, and what is not."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from torture_bot import KEY, LOST, Bot, a_bot
from websockets.asyncio.client import ClientConnection, connect

from openbell_exchange.matching import Quote, reference_price
from openbell_exchange.terms import Symbol
from openbell_torture.compare import Weakness

STOP = {"side": "sell", "type": "stop", "stop_price": "5"}


async def test_a_bot_without_faults_has_no_finding() -> None:
    async with a_bot() as bot:
        assert await bot.post() == 200
        assert await bot.post() == 200
        assert await bot.post(20, **STOP) == 200
        assert bot.found == []
        assert len(bot.actions) == 3


async def test_an_order_that_was_sent_again_without_an_answer_is_doubled() -> None:
    async with a_bot(**LOST) as bot:
        assert await bot.post() is None
        assert await bot.post() is None
        (doubled,) = [finding for finding in bot.findings if finding.weakness is Weakness.DOUBLED]
        assert (doubled.at, doubled.ordinals) == (bot.journal.entries[1].at, (1, 2))


@pytest.mark.parametrize("fault", ["error_500_after_accept", "refused_but_placed"])
async def test_an_order_that_was_answered_with_no_is_doubled_too(fault: str) -> None:
    async with a_bot(**{fault: 1.0}) as bot:
        await bot.post()
        await bot.post()
        assert bot.found.count(Weakness.DOUBLED) == 1


async def test_orders_with_the_same_terms_that_were_both_accepted_are_two() -> None:
    async with a_bot() as bot:
        await bot.post()
        await bot.post()
        assert Weakness.DOUBLED not in bot.found


async def test_an_order_that_is_sent_again_with_its_id_and_looked_up_is_neither_doubled_nor_lost() -> None:
    async with a_bot(**LOST) as bot:
        assert await bot.post(name="a") is None
        assert await bot.post(name="a") == 422
        assert (await bot.get("/v2/orders:by_client_order_id?client_order_id=a"))["status"] == "filled"
        assert bot.found == []


async def test_an_order_of_which_nothing_was_told_is_lost() -> None:
    async with a_bot(**LOST) as bot:
        await bot.post()
        assert bot.found == [Weakness.LOST_TRACK]
        await bot.get("/v2/orders?status=all")
        assert bot.found == []


async def test_an_order_that_was_never_done_is_not_lost() -> None:
    async with a_bot(too_many_requests=1.0) as bot:
        assert await bot.post() == 429
        assert bot.found == []


@asynccontextmanager
async def listening(bot: Bot) -> AsyncIterator[ClientConnection]:
    async with connect(bot.address.replace("http", "ws") + "/stream", proxy=None) as stream:
        await stream.send(json.dumps({"action": "auth", "key": KEY, "secret": "secret"}))
        await stream.send(json.dumps({"action": "listen", "data": {"streams": ["trade_updates"]}}))
        while json.loads(await stream.recv())["stream"] != "listening":
            pass
        yield stream


async def test_a_stream_that_repeats_fills_sends_each_twice() -> None:
    async with a_bot(duplicate_fills=1.0) as bot, listening(bot) as stream:
        await bot.post()
        events: list[str] = []
        while events.count("fill") < 2:
            events.append(json.loads(await stream.recv())["data"]["event"])
        assert bot.found == []


async def test_an_order_that_only_the_stream_told_of_is_not_lost() -> None:
    async with a_bot(**LOST) as bot, listening(bot) as stream:
        await bot.post()
        events: list[str] = []
        while "fill" not in events:
            events.append(json.loads(await stream.recv())["data"].get("event"))
        assert bot.found == []


async def test_an_order_that_filled_after_its_cancel_was_told_is_lost_until_the_bot_looks() -> None:
    async with a_bot(fill_after_cancel=1.0) as bot:
        await bot.post(name="a", type="limit", limit_price="1")
        order = await bot.get("/v2/orders:by_client_order_id?client_order_id=a")
        canceled = bot.journal.known[order["id"]]
        await bot.client.delete(f"/v2/orders/{order['id']}")
        canceled.status = "canceled"
        assert bot.found == [Weakness.LOST_TRACK]
        await bot.get(f"/v2/orders/{order['id']}")
        assert bot.found == []


async def test_a_position_whose_stop_is_not_there_is_unprotected() -> None:
    async with a_bot() as bot:
        await bot.post(10)
        await bot.post(10, **STOP)
        assert bot.found == []
        await bot.client.delete("/v2/orders")
        assert bot.found == [Weakness.UNPROTECTED]


async def test_a_position_that_was_closed_needs_no_stop() -> None:
    async with a_bot() as bot:
        await bot.post(10)
        await bot.post(10, **STOP)
        await bot.client.delete("/v2/orders")
        await bot.post(10, side="sell")
        assert bot.found == []


async def test_a_bot_that_says_something_else_than_the_broker_has_a_wrong_position() -> None:
    async with a_bot() as bot:
        await bot.post(10)
        bot.journal.believed = {"AAPL": Decimal(10)}
        assert bot.found == []
        bot.journal.believed = {"AAPL": Decimal(9)}
        assert bot.found == [Weakness.WRONG_POSITION]
        bot.journal.believed = {"AAPL": Decimal(10), "MSFT": Decimal(1)}
        assert bot.found == [Weakness.WRONG_POSITION]


async def test_the_same_seed_gives_the_same_faults_to_the_same_ordinals() -> None:
    async def statuses() -> list[int | None]:
        async with a_bot(accept_then_reset=0.3, too_many_requests=0.3) as bot:
            return [await bot.post(number) for number in range(1, 13)]

    first = await statuses()
    assert len(set(first)) == 3
    assert await statuses() == first


async def test_resting_orders_are_doubled_until_one_of_them_is_canceled() -> None:
    async with a_bot(**LOST) as bot:
        await bot.post(type="limit", limit_price="1")
        await bot.post(type="limit", limit_price="1")
        assert Weakness.DOUBLED in bot.found
        first, _ = await bot.get("/v2/orders")
        await bot.client.delete(f"/v2/orders/{first['id']}")
        assert Weakness.DOUBLED not in bot.found


@pytest.mark.parametrize("other", [{"side": "sell"}, {"qty": "20"}, {"symbol": "MSFT"}])
async def test_another_order_after_one_without_an_answer_is_another_wish(other: dict[str, Any]) -> None:
    async with a_bot(**LOST) as bot:
        await bot.post()
        await bot.post(**other)
        assert len(bot.actions) == 2


@pytest.mark.parametrize("refusal", [{"too_many_requests": 1.0}, {"refuse": 1.0}])
async def test_an_order_that_is_sent_again_after_a_refusal_is_one_wish(refusal: dict[str, float]) -> None:
    async with a_bot(**refusal) as bot:
        for _ in range(3):
            await bot.post()
        assert len(bot.actions) == 1


async def test_an_order_that_is_sent_again_under_its_id_is_one_wish() -> None:
    async with a_bot() as bot:
        await bot.post(name="a")
        await bot.post(name="a")
        assert len(bot.actions) == 1


async def test_a_request_that_did_not_arrive_whole_is_no_wish() -> None:
    async with a_bot() as bot:
        address = bot.address.removeprefix("http://").partition(":")
        with socket.create_connection((address[0], int(address[2])), timeout=30) as connection:
            connection.sendall(b"POST /v2/orders HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
        while not bot.journal.entries:
            await bot.get("/v2/clock")
        while all(entry.asked.is_whole for entry in bot.journal.entries):
            await bot.get("/v2/clock")
        assert bot.actions == []


async def test_the_order_that_a_replace_made_is_lost_too() -> None:
    async with a_bot(replace_then_reset=1.0) as bot:
        await bot.post(name="a", type="limit", limit_price="1")
        order = await bot.get("/v2/orders:by_client_order_id?client_order_id=a")
        assert bot.found == []
        await bot.patch(order["id"], limit_price="2")
        assert bot.found == [Weakness.LOST_TRACK]


async def test_an_order_that_works_for_all_that_the_bot_knows_may_fill() -> None:
    async with a_bot() as bot:
        await bot.post(type="limit", limit_price="1")
        bot.engine.exchange.set_price(Symbol("AAPL"), Quote(Decimal("0.5")))
        assert bot.found == []


async def test_only_a_working_stop_of_the_symbol_and_the_other_side_protects() -> None:
    async with a_bot() as bot:
        await bot.post(10)
        await bot.post(10, symbol="MSFT")
        await bot.post(10, **STOP)
        await bot.client.delete("/v2/orders")
        high = str(reference_price(Symbol("AAPL")) * 2)
        assert await bot.post(10, side="sell", type="limit", limit_price=high) == 200
        assert await bot.post(10, type="stop", stop_price=high) == 200
        assert await bot.post(10, symbol="MSFT", **STOP) == 200
        assert bot.found == [Weakness.UNPROTECTED]


async def test_what_a_stop_has_filled_does_not_protect() -> None:
    async with a_bot() as bot:
        await bot.post(10)
        await bot.post(10, **STOP)
        bot.engine.exchange.set_price(Symbol("AAPL"), Quote(Decimal(4), Decimal(4)))
        assert bot.found == []
        await bot.post(4)
        assert bot.found == [Weakness.UNPROTECTED]


async def test_a_bot_that_says_more_or_nothing_has_a_wrong_position() -> None:
    async with a_bot() as bot:
        await bot.post(10)
        for believed in ({"AAPL": Decimal(11)}, {}):
            bot.journal.believed = believed
            assert bot.found == [Weakness.WRONG_POSITION]


async def test_findings_are_in_the_order_of_their_times() -> None:
    async with a_bot(**LOST) as bot:
        await bot.post(1)
        await bot.post(2)
        await bot.post(2)
        assert bot.found[:2] == [Weakness.LOST_TRACK, Weakness.DOUBLED]
