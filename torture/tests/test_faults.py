"""Faults of look-ups and of the endpoint, and plans that cannot be carried out."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import httpx
import pytest
from torture_bot import KEY, Bot, a_bot
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from openbell_exchange.faults import InvalidFaults
from openbell_torture.faults import NAMES, PRESETS, EndpointFault, plan

POLL_SECONDS = 0.05
POLLS = 1_200


async def seen(bot: Bot) -> list[Any]:
    """The ids that the bot finds in the list."""
    return [order["client_order_id"] for order in await bot.get("/v2/orders?status=all")]


async def status_of(bot: Bot, path: str) -> int | None:
    try:
        return (await bot.client.get(path)).status_code
    except httpx.HTTPError:
        return None


async def test_a_look_up_is_cut_or_answered_with_an_error_and_the_order_is_there() -> None:
    for fault, expected in ((EndpointFault.READ_RESET, None), (EndpointFault.READ_ERROR, 504)):
        async with a_bot(**{fault: 1.0}) as bot:
            assert await bot.post(name="a") == 200
            assert await status_of(bot, "/v2/orders:by_client_order_id?client_order_id=a") == expected
            assert [entry.fault for entry in bot.journal.entries][1:] == [fault]
            assert len(bot.orders) == 1


async def test_a_new_order_is_not_found_by_the_first_look_ups() -> None:
    async with a_bot(unseen=1.0) as bot:
        await bot.post(name="a")
        path = "/v2/orders:by_client_order_id?client_order_id=a"
        assert await status_of(bot, path) == 404
        assert await seen(bot) == []
        assert await seen(bot) == ["a"]
        assert await status_of(bot, path) == 200
        # Its id is taken all the time.
        assert await bot.post(name="a") == 422


async def test_a_restart_cuts_commands_look_ups_and_streams_and_then_it_answers_again() -> None:
    # With this seed the second command meets the restart.
    async with a_bot(restart=0.5) as bot:
        answers = [await bot.post(name=f"{number}") for number in range(8)]
        assert 200 in answers
        cut = answers.index(None)
        assert answers[cut : cut + 4] == [None] * 4
        assert bot.orders
        assert len(bot.orders) == answers.count(200)


async def test_a_restart_ends_a_stream_and_refuses_it_while_it_lasts() -> None:
    async with a_bot(restart=1.0) as bot:
        address = bot.address.replace("http", "ws") + "/stream"
        async with connect(address) as stream:
            await stream.send(json.dumps({"action": "auth", "key": KEY, "secret": "secret"}))
            await stream.send(json.dumps({"action": "listen", "data": {"streams": ["trade_updates"]}}))
            assert [json.loads(await stream.recv())["stream"] for _ in range(2)] == ["authorization", "listening"]
            assert await bot.post() is None
            with pytest.raises(ConnectionClosed):
                await stream.recv()
        with pytest.raises((ConnectionClosed, OSError)):
            async with connect(address) as second:
                await second.recv()


async def test_a_late_fill_comes_with_the_third_request_after_the_order() -> None:
    async with a_bot(late_fill=1.0) as bot:
        await bot.post(name="a")
        (order,) = bot.orders
        assert order.filled == 0
        found = [(await bot.get("/v2/orders:by_client_order_id?client_order_id=a"))["filled_qty"] for _ in range(3)]
        assert found == ["0", "0", "10"]


async def test_a_late_fill_comes_without_requests_too() -> None:
    async with a_bot(late_fill=1.0) as bot:
        await bot.post()
        for _ in range(POLLS):
            if bot.orders[0].fills:
                break
            await asyncio.sleep(POLL_SECONDS)
        assert bot.orders[0].filled == 10


async def test_what_would_have_filled_late_has_filled_when_the_run_is_over() -> None:
    async with a_bot(late_fill=1.0) as bot:
        await bot.post()
        assert bot.orders[0].filled == 0
        bot.engine.close()
        assert bot.orders[0].filled == Decimal(10)


async def test_an_order_that_fills_late_can_be_canceled_before() -> None:
    async with a_bot(late_fill=1.0) as bot:
        await bot.post(name="a")
        (order,) = await bot.get("/v2/orders")
        await bot.client.delete(f"/v2/orders/{order['id']}")
        bot.engine.close()
        assert bot.orders[0].filled == 0
        assert not bot.orders[0].is_working


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_is_a_plan(name: str) -> None:
    assert plan(name, 3).seed == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bust=0.1", "no such fault"),
        ("mute_ms=100", "no such fault"),
        ("by_terms=1", "no such fault"),
        ("restart=2", "from 0 to 1"),
        ("seed=3,hang=0.1", "--seed"),
    ],
)
def test_a_fault_that_the_simulator_does_not_have_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidFaults, match=problem):
        plan(text, 1)


def test_every_fault_has_its_name_once() -> None:
    assert len(NAMES) == len(set(NAMES))
