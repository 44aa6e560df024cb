"""Alpaca's stream of trade updates: what it tells a bot, and what it bears."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.execution.record_outcomes import Door
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import client_order_id
from openbell_server.domain.orders.broker_reports import Refused, ReportStatus, Unknown
from openbell_server.transport.rest.alpaca import stream
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_key, a_report, a_tenant, an_account, an_execution
from support.rest.alpaca_front import LIMIT, AlpacaBot
from support.rest.served_events import Server

Json = dict[str, Any]
LISTEN: Json = {"action": "listen", "data": {"streams": ["trade_updates"]}}


def signing_in(account_id: object, key: str) -> Json:
    return {"action": "authenticate", "data": {"key_id": str(account_id), "secret_key": key}}


async def asked(connection: ClientConnection, message: object) -> Json:
    await connection.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return await told(connection)


async def told(connection: ClientConnection) -> Json:
    message: Json = json.loads(await asyncio.wait_for(connection.recv(), 60))
    return message


async def closed(connection: ClientConnection) -> int | None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await asyncio.wait_for(connection.recv(), 60)
    return connection.close_code


@dataclass(frozen=True, slots=True)
class Front:
    """The platform with a bot's two ways to it."""

    server: Server
    bot: AlpacaBot

    @property
    def url(self) -> str:
        return f"{self.server.url.replace('http', 'ws', 1)}/alpaca/stream"

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[ClientConnection]:
        async with connect(self.url) as connection:
            authorized = await asked(connection, signing_in(self.bot.account_id, self.bot.key))
            assert authorized["data"] == {"status": "authorized", "action": "authenticate"}
            assert await asked(connection, LISTEN) == {"stream": "listening", "data": {"streams": ["trade_updates"]}}
            yield connection


@contextlib.asynccontextmanager
async def front_of(pool: Pool, tenant: Tenant, **caps: int) -> AsyncIterator[Front]:
    server = Server(pool, alpaca_front=True, **caps)
    async with server.serving() as client:
        yield Front(server, AlpacaBot(client, tenant.account.id, tenant.key))


@pytest.fixture
async def front(harness: Harness) -> AsyncIterator[Front]:
    async with front_of(harness.pool, harness.tenant) as front:
        yield front


def name_of(door: Door) -> str:
    return client_order_id(door.action.order_action_id)


async def updates(connection: ClientConnection, count: int) -> list[Json]:
    messages = [await told(connection) for _ in range(count)]
    assert {message["stream"] for message in messages} == {"trade_updates"}
    return [message["data"] for message in messages]


async def test_an_order_is_told_from_acceptance_to_its_last_fill(front: Front, harness: Harness) -> None:
    async with front.listening() as connection:
        order = (await front.bot.submit(**LIMIT, client_order_id="mine")).json()
        (door,) = await harness.work()
        first, last = an_execution(1, 4, 2), an_execution(2, 6, 3)
        await harness.report(a_report(ReportStatus.WORKING, [first], client_order_id=name_of(door)))
        await harness.report(a_report(ReportStatus.FILLED, [first, last], client_order_id=name_of(door)))
        pending, new, part, fill = await updates(connection, 4)
    told_as = [(update["event"], update["order"]["status"]) for update in (pending, new, part, fill)]
    assert told_as == [
        ("pending_new", "pending_new"),
        ("new", "new"),
        ("partial_fill", "partially_filled"),
        ("fill", "filled"),
    ]
    for update in (pending, new, part, fill):
        assert (update["order"]["id"], update["order"]["client_order_id"]) == (order["id"], "mine")
    assert [update["order"]["filled_qty"] for update in (pending, new, part, fill)] == ["0", "0", "4", "10"]
    assert (part["qty"], part["price"], part["position_qty"]) == ("4", "2", "4")
    assert (fill["qty"], fill["price"], fill["position_qty"]) == ("6", "3", "10")
    assert fill["order"]["filled_avg_price"] == "2.6"
    assert part["order"]["filled_at"] is None
    assert fill["order"]["filled_at"] == fill["order"]["updated_at"]
    assert part["execution_id"] != fill["execution_id"]


async def test_what_became_of_replaces_and_cancels_is_told(front: Front, harness: Harness) -> None:
    order = (await front.bot.submit(**LIMIT)).json()
    await harness.work()
    async with front.listening() as connection:
        for outcome in (None, Refused("E1", "no")):
            harness.broker.script.extend([outcome] if outcome else [])
            await front.bot.ask("PATCH", f"/orders/{order['id']}", {"qty": "12"})
            await harness.work()
        harness.broker.script.append(Refused("E2", "too late"))
        await front.bot.ask("DELETE", f"/orders/{order['id']}")
        await harness.work()
        events = []
        while "order_cancel_rejected" not in events:
            events += [update["event"] for update in await updates(connection, 1)]
    assert [event for event in events if not event.startswith("pending")] == [
        "replaced",
        "order_replace_rejected",
        "order_cancel_rejected",
    ]


async def test_an_unknown_outcome_is_pending_and_a_refusal_is_rejected(front: Front, harness: Harness) -> None:
    harness.broker.script.extend([Unknown("no answer"), Refused("E7", "no money")])
    async with front.listening() as connection:
        await front.bot.submit(**LIMIT)
        await harness.work()
        await front.bot.submit(**LIMIT)
        await harness.work()
        found: dict[str, Json] = {}
        while "rejected" not in found:
            (update,) = await updates(connection, 1)
            found[update["order"]["openbell"]["status"]] = update
            found[update["event"]] = update
    unknown = found["UNKNOWN"]
    assert (unknown["event"], unknown["order"]["openbell"]["certainty"]) == ("pending_new", "UNKNOWN")
    assert found["rejected"]["order"]["openbell"]["reason"]["broker_text"] == "no money"


async def test_another_accounts_orders_are_not_told(front: Front, harness: Harness) -> None:
    account = await an_account(harness.pool, harness.tenant.account.organization_id)
    other = AlpacaBot(front.bot.client, account.id, front.bot.key)
    async with front.listening() as connection:
        assert (await other.submit(client_order_id="theirs")).status_code == 200
        assert (await front.bot.submit(client_order_id="mine")).status_code == 200
        (update,) = await updates(connection, 1)
    assert update["order"]["client_order_id"] == "mine"


async def test_a_bot_that_stops_listening_hears_nothing_until_it_listens_again(front: Front) -> None:
    async with front.listening() as connection:
        nothing = {"action": "listen", "data": {"streams": []}}
        assert await asked(connection, nothing) == {"stream": "listening", "data": {"streams": []}}
        await front.bot.submit(client_order_id="unheard")
        # A message is answered after the events before it were passed over.
        await asyncio.sleep(1)
        assert (await asked(connection, LISTEN))["data"] == {"streams": ["trade_updates"]}
        await front.bot.submit(client_order_id="heard")
        (update,) = await updates(connection, 1)
    assert update["order"]["client_order_id"] == "heard"


@pytest.mark.parametrize(("environment", "kind"), [(Environment.PAPER, bytes), (Environment.LIVE, str)])
async def test_frames_are_binary_for_paper_accounts_and_text_for_live_ones(
    pool: Pool, environment: Environment, kind: type
) -> None:
    tenant = await a_tenant(pool)
    account = await an_account(pool, tenant.account.organization_id, environment)
    _, key = await a_key(pool, tenant.account.organization_id, environment)
    async with front_of(pool, tenant) as front, connect(front.url) as connection:
        await connection.send(json.dumps({"action": "auth", "key": str(account.id), "secret": key}))
        assert isinstance(await asyncio.wait_for(connection.recv(), 60), kind)


async def test_who_may_not_follow_the_account_is_unauthorized_and_the_connection_ends(pool: Pool) -> None:
    mine, theirs = await a_tenant(pool), await a_tenant(pool)
    live = await an_account(pool, mine.account.organization_id, Environment.LIVE)
    async with front_of(pool, mine) as front:
        for message, code in (
            (signing_in(mine.account.id, mine.key[:-1]), "unauthenticated"),
            (signing_in(mine.account.id, ""), "unauthenticated"),
            (signing_in("", mine.key), "unauthenticated"),
            (signing_in(mine.account.id, theirs.key), "not_found"),
            (signing_in(theirs.account.id, mine.key), "not_found"),
            (signing_in(uuid4(), mine.key), "not_found"),
            (signing_in(live.id, mine.key), "environment_mismatch"),
            (LISTEN, "unauthenticated"),
            ({"action": "auth", "key": [], "secret": {}}, "unauthenticated"),
            ({"action": ["auth"]}, "unauthenticated"),
            ({}, "unauthenticated"),
        ):
            async with connect(front.url) as connection:
                answer = await asked(connection, message)
                assert answer["stream"] == "authorization", message
                assert answer["data"]["status"] == "unauthorized", message
                assert answer["data"]["openbell"]["code"] == code, message
                assert await closed(connection) == 1008


@pytest.mark.parametrize("message", ["", "{", "[]", "7", "\x00", b"\xff", '{"action":"auth","action":"auth"}'])
async def test_what_is_no_object_ends_the_connection_with_a_sentence(front: Front, message: str | bytes) -> None:
    async with connect(front.url) as connection:
        answer = await asked(connection, message)
        assert (answer["stream"], bool(answer["data"]["error"])) == ("error", True)
        assert await closed(connection) == 1008


async def test_an_unknown_message_of_a_known_bot_ends_the_connection(front: Front) -> None:
    async with front.listening() as connection:
        answer = await asked(connection, {"action": "subscribe"})
        assert answer["data"]["openbell"]["code"] == "invalid_parameter"
        assert await closed(connection) == 1008


async def test_a_long_message_or_one_of_many_pieces_ends_the_connection(front: Front) -> None:
    async with connect(front.url) as connection:
        await connection.send("x" * 5000)
        assert await closed(connection) == 1009
    async with connect(front.url) as connection:
        with contextlib.suppress(ConnectionClosed):
            await connection.send([""] * 1000)
        assert await closed(connection) == 1006


async def test_who_does_not_sign_in_is_disconnected(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SIGN_IN_SECONDS", 0.1)
    async with connect(front.url) as connection:
        assert await closed(connection) == 1008


async def test_a_revoked_key_ends_the_connection(front: Front, harness: Harness) -> None:
    async with front.listening() as connection:
        await harness.pool.execute("update openbell.api_keys set revoked_at = now()")
        assert await closed(connection) == 1006


async def test_a_server_that_stops_says_so(front: Front) -> None:
    async with front.listening() as connection:
        front.server.stopping.set()
        assert await closed(connection) == 1012


async def test_streams_count_toward_the_organizations_cap(harness: Harness) -> None:
    async with front_of(harness.pool, harness.tenant, streams=1) as front, front.listening() as connection:
        async with connect(front.url) as second:
            await asked(second, signing_in(front.bot.account_id, front.bot.key))
            answer = await told(second)
            assert answer["data"]["openbell"]["code"] == "too_many_streams"
            assert await closed(second) == 1008
        await front.bot.submit()
        await updates(connection, 1)


async def test_a_websocket_elsewhere_is_refused_and_connections_that_ended_do_not_count(front: Front) -> None:
    for path in ("/alpaca/streams", "/v1/events", "/"):
        with pytest.raises(InvalidStatus, match="403"):
            await connect(front.server.url.replace("http", "ws", 1) + path)
    front.server.connections.per_address_max = 2
    for _ in range(5):
        async with front.listening():
            pass


async def test_without_the_front_there_is_no_websocket(pool: Pool) -> None:
    server = Server(pool)
    async with server.serving():
        with pytest.raises(InvalidStatus, match="404"):
            await connect(server.url.replace("http", "ws", 1) + "/alpaca/stream")
