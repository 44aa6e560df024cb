"""The log of an account over REST: pages of it, and streams that are cut and go on."""

import asyncio
import contextlib
import random
from typing import Any

import grpc
import pytest

from openbell.wire import trading_pb2 as pb
from openbell.wire import trading_pb2_grpc
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.events import read_events, refusal_delays
from openbell_server.domain.access.caps import caps_with
from openbell_server.transport.rest.events import server_sent_events as streaming
from openbell_server.transport.rest.events.routes import TYPES
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_cancel, a_limit_create, a_replace, a_tenant, accept
from support.rest.event_streams import delete_events, ending, event_stream, forget_after, take
from support.rest.rest_api import RestApi, pointers, problem
from support.rest.served_events import Server, accepting, asked, events_of, frames_of


async def read(api: RestApi, tenant: Tenant, **query: str | int) -> dict[str, Any]:
    answer = await api.client.get(events_of(tenant, **query), headers={"x-api-key": tenant.key})
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def test_pages_join_and_every_event_says_which_came_before(
    api: RestApi, pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asked(pool, tenant, 7)
    for span, query in ((2000, {}), (2, {}), (1, {"types": "INTENT_ACTION"}), (2000, {"symbols": "aapl"})):
        monkeypatch.setattr(read_events, "LOOKED_AT_MAX", span)
        page = await read(api, tenant, limit=3, **query)
        seen, begun = page["data"], 0
        while page["next_cursor"] is not None:
            page = await read(api, tenant, limit=3, next_cursor=page["next_cursor"], **query)
            seen += page["data"]
        assert [event["account_seq"] for event in seen] == list(range(1, 8))
        for event in seen:
            assert event["prev_seq"] == begun
            begun = event["account_seq"]
        assert (page["oldest_seq"], page["newest_seq"]) == (1, 7)
        assert seen[0]["event_id"] == f"{tenant.account.id}.1"
        assert seen[0]["intent_action"]["status"] == "QUEUED"
    assert [event["account_seq"] for event in (await read(api, tenant, after_seq=5))["data"]] == [6, 7]
    assert await read(api, tenant, types="BROKER_ORDER") == {
        "data": [],
        "oldest_seq": 1,
        "newest_seq": 7,
        "next_cursor": None,
        "last_cursor": seen[-1]["resume_token"],
    }
    assert (await read(api, tenant, symbols="MSFT"))["data"] == []


async def test_the_event_of_a_recorded_command_has_the_terms_that_it_asks_for(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    (created,) = await accept(pool, tenant.submission(a_limit_create()))
    await accept(pool, tenant.submission(a_replace(created.intent_id, quantity="7")))
    await accept(pool, tenant.submission(a_cancel(created.intent_id)))
    create, changed, cancel = (event["intent_action"] for event in (await read(api, tenant))["data"])
    terms = {
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "LIMIT",
        "quantity": "10",
        "limit_price": "1.50",
        "time_in_force": "GOOD_TILL_CANCEL",
    }
    assert {name: create[name] for name in terms} == terms
    assert (changed["quantity"], changed["limit_price"]) == ("7", "1.75")
    assert not set(terms) & set(cancel)


async def test_what_is_asked_for_wrongly_is_refused(api: RestApi, tenant: Tenant) -> None:
    headers = {"x-api-key": tenant.key}
    wrong = [
        ({"types": "FILLS"}, "types"),
        ({"types": ""}, "types"),
        ({"symbols": "a b"}, "symbols"),
        ({"symbols": ",".join(["AAPL"] * 101)}, "symbols"),
        ({"after_seq": "-1"}, "after_seq"),
        ({"after_seq": "007"}, "after_seq"),
        ({"after_seq": "1", "next_cursor": "x"}, "after_seq"),
        ({"start": "LIVE"}, "start"),
        ({"limit": "0"}, "limit"),
        ({"limit": "05"}, "limit"),
        ({"from": "1"}, "from"),
        ({"intent_id": "7"}, "intent_id"),
        ({"account_id": "7"}, "account_id"),
    ]
    nobodys = await api.client.get("/v1/events", headers=headers)
    assert pointers(problem(nobodys, 400, "invalid_parameter")) == ["/account_id"]
    for query, name in wrong:
        told = problem(await api.client.get(events_of(tenant, **query), headers=headers), 400, "invalid_parameter")
        assert pointers(told) == [f"/{name}"]
    forged = await api.client.get(events_of(tenant, next_cursor="A" * 27), headers=headers)
    problem(forged, 400, "invalid_cursor")
    stream = {**headers, "accept": "text/event-stream"}
    for query, name in (({"start": "later"}, "start"), ({"after_seq": "1"}, "after_seq"), ({"limit": "5"}, "limit")):
        told = problem(await api.client.get(events_of(tenant, **query), headers=stream), 400, "invalid_parameter")
        assert pointers(told) == [f"/{name}"]
    for name, asked_by in (("a page", headers), ("a stream", stream)):
        empty = await api.client.get(events_of(tenant), headers={**asked_by, "last-event-id": ""})
        assert pointers(problem(empty, 400, "invalid_parameter")) == ["/headers/last-event-id"], name
    both = {**stream, "last-event-id": "A" * 27}
    for query in ({}, {"start": "LIVE"}):
        problem(await api.client.get(events_of(tenant, **query), headers=both), 400, "invalid_cursor")


async def test_a_stream_is_refused_from_a_token_that_is_ahead_of_a_log_that_was_restored(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    await asked(pool, tenant, 3)
    token = (await read(api, tenant))["last_cursor"]
    await forget_after(pool, tenant, 2)
    told = problem(await api.client.get(events_of(tenant), headers=accepting(tenant, token)), 400, "invalid_cursor")
    assert "ahead of the log" in str(told["detail"])


async def test_a_stream_that_is_cut_anywhere_goes_on_without_a_gap(pool: Pool, tenant: Tenant) -> None:
    total, chance = 60, random.Random(7)
    async with Server(pool).serving() as client:

        async def write() -> None:
            for _ in range(total // 3):
                await asked(pool, tenant, 3)

        writing = asyncio.ensure_future(write())
        seen: list[int] = []
        token: str | None = None
        async with asyncio.timeout(60):
            while len(seen) < total:
                query = {} if token else {"start": "BEGINNING"}
                stays = chance.randrange(1, 12)
                url, headers = events_of(tenant, **query), accepting(tenant, token)
                async with client.stream("GET", url, headers=headers) as response:
                    assert response.headers["content-type"].startswith("text/event-stream")
                    assert response.headers["cache-control"] == "no-store"
                    begun = seen[-1] if seen else 0
                    async for sealed, name, data in frames_of(response):
                        token = sealed
                        if name == "subscribed":
                            assert data["account_seq"] == begun
                            continue
                        if name == "heartbeat":
                            continue
                        assert (name, data["type"], data["prev_seq"]) == ("intent_action", "INTENT_ACTION", begun)
                        begun = data["account_seq"]
                        seen.append(begun)
                        stays -= 1
                        if not stays or len(seen) == total:
                            break
        await writing
    assert seen == list(range(1, total + 1))


async def test_the_data_of_a_frame_is_what_the_page_has_of_the_event(pool: Pool, tenant: Tenant) -> None:
    await asked(pool, tenant, 1)
    async with Server(pool).serving() as client:
        listed = (await client.get(events_of(tenant), headers={"x-api-key": tenant.key})).json()["data"][0]
        query = {"start": "BEGINNING", "symbols": "AAPL"}
        async with client.stream("GET", events_of(tenant, **query), headers=accepting(tenant)) as response:
            frames = frames_of(response)
            _, _, first = await anext(frames)
            token, name, data = await anext(frames)
    assert first["subscribed"] == {"subscriptions": sorted(TYPES), "symbols": ["AAPL"], "start": "BEGINNING"}
    assert {**data, "resume_token": token} == listed
    assert name.upper() == data["type"]


async def test_a_primed_stream_tells_what_stands_before_what_happens(pool: Pool, tenant: Tenant) -> None:
    harness = Harness(pool, tenant)
    await harness.working()
    # Of this one no event tells yet.
    await asked(pool, tenant, 1)
    async with (
        Server(pool).serving() as client,
        client.stream("GET", events_of(tenant, start="PRIMED"), headers=accepting(tenant)) as response,
    ):
        frames = frames_of(response)
        told = [await anext(frames) for _ in range(3)]
        assert [name for _, name, _ in told] == ["subscribed", "broker_order", "primed"]
        assert told[1][2]["broker_order"]["status"] == "NEW"
        assert told[-1][2]["primed"] == {"orders": 1, "positions": 0}
        # Who resumes before all was told begins anew.
        assert [bool(token) for token, _, _ in told] == [False, False, True]
        await asked(pool, tenant, 1)
        async with asyncio.timeout(60):
            _, name, data = await anext(frames)
        assert (name, data["account_seq"], data["prev_seq"]) == ("intent_action", 5, 4)


async def test_a_stream_says_why_it_ends_when_its_key_is_revoked(pool: Pool, tenant: Tenant) -> None:
    async with (
        Server(pool).serving() as client,
        client.stream("GET", events_of(tenant), headers=accepting(tenant)) as response,
    ):
        frames = frames_of(response)
        await anext(frames)
        await pool.execute("update api_keys set revoked_at = now()")
        async with asyncio.timeout(60):
            _, name, data = await anext(frames)
            assert (name, data["error"]["code"], data["error"]["retryable"]) == ("error", "unauthenticated", False)
            assert [frame async for frame in frames] == []


async def test_events_that_were_deleted_without_pruning_are_a_gap_in_pages_and_streams(
    pool: Pool, tenant: Tenant
) -> None:
    await asked(pool, tenant, 5)
    await delete_events(pool, tenant, 2, 3, 5)
    seen: list[object] = []
    async with Server(pool).serving() as client:
        query = {"start": "BEGINNING"}
        async with client.stream("GET", events_of(tenant, **query), headers=accepting(tenant)) as response:
            frames = frames_of(response)
            async with asyncio.timeout(60):
                streamed = [await anext(frames) for _ in range(5)][1:]
        page, after = {}, {"after_seq": "0"}
        while after:
            page = (await client.get(events_of(tenant, **after), headers={"x-api-key": tenant.key})).json()
            seen += [(gap["first_seq"], gap["last_seq"], gap["reason"])] if (gap := page.get("gap")) else []
            seen += [event["account_seq"] for event in page["data"]]
            after = {"next_cursor": page["next_cursor"]} if page["next_cursor"] else {}
    assert seen == [1, (2, 3, "DELETED"), 4, (5, 5, "DELETED")]
    assert [(name, data["prev_seq"], data["account_seq"]) for _, name, data in streamed] == [
        ("intent_action", 0, 1),
        ("gap", 1, 3),
        ("intent_action", 3, 4),
        ("gap", 4, 5),
    ]


async def test_a_server_that_goes_away_says_so(pool: Pool, tenant: Tenant) -> None:
    server = Server(pool)
    async with (
        server.serving() as client,
        client.stream("GET", events_of(tenant), headers=accepting(tenant)) as response,
    ):
        frames = frames_of(response)
        await anext(frames)
        server.stopping.set()
        async with asyncio.timeout(60):
            _, name, data = await anext(frames)
        assert (name, data["error"]["code"], data["error"]["retryable"]) == ("error", "going_away", True)


async def test_a_caller_has_a_bounded_number_of_streams_and_gets_them_back(
    pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "STREAMS_MAX", 2)
    other = await a_tenant(pool)
    async with Server(pool).serving() as client:

        async def opened(whose: Tenant) -> int:
            async with client.stream("GET", events_of(whose), headers=accepting(whose)) as response:
                return response.status_code

        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                stream = client.stream("GET", events_of(tenant), headers=accepting(tenant))
                assert (await stack.enter_async_context(stream)).status_code == 200
            assert (await opened(tenant), await opened(other)) == (429, 200)

        async def is_free() -> bool:
            return await opened(tenant) == 200

        await until(is_free)


async def test_an_organization_has_so_many_streams_over_sse_and_grpc_together(pool: Pool, tenant: Tenant) -> None:
    other = await a_tenant(pool)
    metadata = (("x-api-key", tenant.key),)
    request = pb.Subscribe(trading_account_id=str(tenant.account.id), subscriptions=[pb.EVENT_TYPE_INTENT_ACTION])
    async with (
        Server(pool, streams=2).serving() as client,
        event_stream(pool, caps=caps_with({"streams": 2})) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        stub: Any = trading_pb2_grpc.TradingServiceStub(channel)
        over_grpc = stub.SubscribeEvents(request, metadata=metadata, timeout=60)
        await take(over_grpc, 1)
        async with client.stream("GET", events_of(tenant), headers=accepting(tenant)) as over_sse:
            assert over_sse.status_code == 200
            refused = await client.get(events_of(tenant), headers=accepting(tenant))
            detail = str(problem(refused, 429, "too_many_streams")["detail"])
            assert "which is 2" in detail
            assert "OPENBELL_CAP_STREAMS" in detail
            _, code, told = await ending(stub.SubscribeEvents(request, metadata=metadata, timeout=60))
            assert (code, told["openbell-code"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "too_many_streams")
            assert told["retry-after"] == "1"
            async with client.stream("GET", events_of(other), headers=accepting(other)) as others:
                assert others.status_code == 200
        over_grpc.cancel()


async def test_neither_an_open_stream_nor_refusals_that_wait_count_as_a_read(
    pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_delays, "REFUSALS_PER_SECOND", 0.01)
    async with (
        Server(pool, streams=1, reads_at_once=1).serving() as client,
        client.stream("GET", events_of(tenant), headers=accepting(tenant)) as stream,
        asyncio.TaskGroup() as refused,
    ):
        assert stream.status_code == 200
        for _ in range(3):
            refused.create_task(client.get(events_of(tenant), headers=accepting(tenant)))
        for _ in range(3):
            assert (await client.get(events_of(tenant), headers={"x-api-key": tenant.key})).status_code == 200


async def test_a_reader_that_takes_nothing_is_cut_and_loses_nothing(
    pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(streaming, "STREAMS_MAX", 1)
    async with Server(pool).serving() as client:
        port = int(str(client.base_url).rsplit(":", 1)[1].strip("/"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        lines = [f"GET {events_of(tenant)} HTTP/1.1", "host: x"]
        lines += [f"{name}: {value}" for name, value in accepting(tenant).items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await reader.readline()
        # More than all buffers on the way hold.
        await pool.execute(
            "insert into account_events select organization_id, account_id, n, 4, null, null,"
            " json_build_object('symbol', repeat('x', 10000), 'accepted_at', now())::text, now()"
            " from account_counters, generate_series(1, 1500) n where account_id = $1",
            tenant.account.id,
        )
        await pool.execute("update account_counters set event_no = 1500 where account_id = $1", tenant.account.id)

        async def is_free() -> bool:
            async with client.stream("GET", events_of(tenant), headers=accepting(tenant)) as response:
                return response.status_code == 200

        assert not await is_free()
        await until(is_free)

        async def is_gone() -> bool:
            writer.write(b"x")
            return writer.is_closing()

        # It is not kept open for what nobody takes.
        await until(is_gone)
        writer.close()
