"""What an account asks for: pages to their end, months side by side, and tags without which nothing is proved."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx
import pytest

from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.http_client import ListBrokenOff, UnexpectedAnswer, UnreadableAnswer
from openbell_server.brokers.tradier.account import PAGES_MAX, TradierAccount
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from support.brokers.answered_http import AnsweredHttp, Answering
from support.brokers.paper_broker import ACCOUNT, named

LONG_AGO = datetime.fromtimestamp(0, UTC)
_Told = TypeVar("_Told")


def order(number: int, tag: str | None = "t", **changes: Any) -> dict[str, Any]:
    made = {"id": number, "status": "open", "create_date": "2026-11-02T15:30:01.123Z", "exec_quantity": 0.0}
    return {**made, "avg_fill_price": 0.0, "class": "equity", **({} if tag is None else {"tag": tag}), **changes}


def listed(*orders: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json={"orders": {"order": orders} if orders else "null"})


def asked(answer: Answering, ask: Callable[[TradierAccount], Awaitable[_Told]]) -> _Told:
    """What an account learns from a broker that answers so."""

    async def run() -> _Told:
        secrets = Secrets({"account": "VA/1", "token": "secret"})
        return await ask(TradierAccount(ACCOUNT, Environment.PAPER, AnsweredHttp(answer), secrets))

    return asyncio.run(run())


def pages(orders: list[dict[str, Any]], size: int) -> Answering:
    """A broker whose pages have a size of its own, whatever it is asked for."""

    def answer(request: httpx.Request) -> httpx.Response:
        page = int(request.url.params["page"])
        return listed(*orders[(page - 1) * size : page * size])

    return answer


@pytest.mark.parametrize(
    ("count", "size"), [(0, 25), (24, 25), (25, 25), (26, 25), (130, 100), (200, 100), (90, 1_000)]
)
def test_a_list_is_read_to_its_end_whatever_the_size_of_its_pages(count: int, size: int) -> None:
    orders = [order(number) for number in range(1, count + 1)]
    assert sorted(asked(pages(orders, size), lambda account: account.orders_now())) == list(range(1, count + 1))


def test_a_list_that_repeats_itself_ends_and_one_without_an_end_is_none() -> None:
    same = [order(number) for number in range(1, 31)]
    assert len(asked(lambda _: listed(*same), lambda account: account.orders_now())) == 30
    calls = iter(range(PAGES_MAX + 1))

    def always_new(_: httpx.Request) -> httpx.Response:
        first = next(calls) * 30
        return listed(*(order(first + number) for number in range(1, 31)))

    with pytest.raises(ListBrokenOff):
        asked(always_new, lambda account: account.orders_now())


def test_several_orders_in_one_are_no_order() -> None:
    body = listed(order(1, **{"class": "otoco"}), order(2), order(3, **{"class": "option"}))
    assert sorted(asked(lambda _: body, lambda account: account.orders_now())) == [2, 3]


def test_a_list_of_long_is_asked_for_in_spans_of_a_month_that_touch() -> None:
    spans: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        spans.append((request.url.params["start"], request.url.params.get("end")))
        return listed()

    assert asked(answer, lambda account: account.orders_since(LONG_AGO)) == []
    assert spans[0][0] == "2011-12-31"
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    assert spans[-1][1] is None
    assert datetime.now(UTC).date().isoformat() >= spans[-1][0]
    for start, end in spans[:-1]:
        assert end is not None
        assert datetime.fromisoformat(end) - datetime.fromisoformat(start) <= timedelta(days=28)


def test_a_list_begins_at_its_millisecond_and_asks_a_day_before() -> None:
    since = datetime.now(UTC).replace(microsecond=123456)
    times = [since - timedelta(milliseconds=1), since, since + timedelta(milliseconds=1)]
    orders = [
        order(number, create_date=time.isoformat(timespec="milliseconds")) for number, time in enumerate(times, start=1)
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.params["start"] == (since - timedelta(days=1)).date().isoformat()
        return listed(*orders)

    assert [each.id for each in asked(answer, lambda account: account.orders_since(since))] == [2, 3]


def test_an_order_is_found_by_its_tag_among_those_of_today_or_else_of_a_month() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return listed(order(1, "old"), order(2, "x")) if "filter" in request.url.params else listed(order(3, "new"))

    for tag, number in (("new", 3), ("old", 1)):
        found = asked(answer, lambda account, tag=tag: account.find(named(tag)))  # type: ignore[misc]
        assert found is not None
        assert found.id == number
    assert asked(answer, lambda account: account.find(named("none"))) is None


def test_a_month_without_any_tag_proves_nothing() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return listed(order(1, None)) if "filter" in request.url.params else listed()

    with pytest.raises(ListBrokenOff):
        asked(answer, lambda account: account.find(named("ours")))


def test_an_order_that_is_asked_for_by_its_id_is_that_order_or_trouble() -> None:
    shown = {"order": order(7, "ours")}
    found = asked(lambda _: httpx.Response(200, json=shown), lambda account: account.find(named("ours", "7")))
    assert found is not None
    for name in (named("ours", "8"), named("another", "7")):
        with pytest.raises(UnreadableAnswer):
            asked(lambda _: httpx.Response(200, json=shown), lambda account, name=name: account.find(name))  # type: ignore[misc]
    with pytest.raises(UnexpectedAnswer):
        asked(
            lambda _: httpx.Response(401, text="Unauthorized Account: VA1"),
            lambda account: account.find(named("ours", "7")),
        )


def test_every_request_bears_the_token_and_the_account_by_its_number() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer secret"
        assert request.url.raw_path.startswith(b"/v1/accounts/VA%2F1/orders?includeTags=true")
        return listed()

    assert asked(answer, lambda account: account.orders_now()) == {}


def test_who_asks_too_often_is_told_so() -> None:
    code = {"errorcode": "policies.ratelimit.QuotaViolation"}
    body = {"fault": {"faultstring": "f", "detail": code}}
    with pytest.raises(SlowDown) as calm:
        asked(
            lambda _: httpx.Response(429, json=body, headers={"retry-after": "7"}),
            lambda account: account.orders_now(),
        )
    assert calm.value.retry_after == 7
