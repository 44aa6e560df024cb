"""The routes of reference prices: who gives them, what is kept, and what an account is judged by."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import Tenant, a_tenant, new_id
from support.identity.bearers import Headers, as_service, as_user
from support.rest.rest_api import RestApi, pointers, problem

PATH = "/v1/reference-prices"
SCOPE = "reference:edit"


def a_price(price: object = "187.50", **more: object) -> dict[str, object]:
    return {"broker": "paper", "symbol": "AAPL", "price": price, **more}


def a_rate(rate: object = "1.0842", **more: object) -> dict[str, object]:
    return {"from_currency": "EUR", "to_currency": "USD", "rate": rate, **more}


async def give(api: RestApi, tenant: Tenant, body: object, headers: Headers | None = None) -> httpx.Response:
    return await api.client.put(PATH, json=body, headers=headers or as_service(SCOPE, tenant=tenant))


async def shown(api: RestApi, tenant: Tenant, **query: Any) -> httpx.Response:
    path = f"/v1/accounts/{tenant.account.id}/reference-prices"
    return await api.client.get(path, headers=as_user(tenant, "read_only"), params=query)


async def test_what_is_given_is_told_and_read_back(api: RestApi, tenant: Tenant) -> None:
    as_of = "2026-01-05T12:00:00Z"
    answer = await give(api, tenant, {"prices": [a_price(symbol="aapl")], "rates": [a_rate(as_of=as_of)]})
    assert answer.status_code == 200
    (price,), (rate,) = answer.json()["prices"], answer.json()["rates"]
    assert set(price) == {"broker", "symbol", "price", "as_of", "source"}
    assert (price["symbol"], price["price"], price["source"]) == ("AAPL", "187.50", "given")
    assert rate == {"from_currency": "EUR", "to_currency": "USD", "rate": "1.0842", "as_of": as_of}
    assert (await shown(api, tenant)).json()["data"] == [price]


async def test_the_newer_price_stays_and_is_told(api: RestApi, tenant: Tenant) -> None:
    now = datetime.now(UTC)
    await give(api, tenant, {"prices": [a_price("2", as_of=now.isoformat())]})
    earlier = (now - timedelta(minutes=1)).isoformat()
    answer = await give(api, tenant, {"prices": [a_price("1", as_of=earlier)]})
    assert [(price["price"], datetime.fromisoformat(price["as_of"])) for price in answer.json()["prices"]] == [
        ("2", now)
    ]


async def test_an_admin_gives_prices_and_no_other_user_or_key_does(api: RestApi, tenant: Tenant) -> None:
    body = {"prices": [a_price()]}
    assert (await give(api, tenant, body, as_user(tenant))).status_code == 200
    problem(await give(api, tenant, body, as_user(tenant, "member")), 403, "permission_denied")
    problem(await give(api, tenant, body, as_service("control:read", tenant=tenant)), 403, "permission_denied")
    problem(await give(api, tenant, body, {"x-api-key": tenant.key}), 403, "principal_kind_not_allowed")


async def test_a_service_account_names_an_organization_that_is_there(api: RestApi, tenant: Tenant) -> None:
    body = {"prices": [a_price()]}
    problem(await give(api, tenant, body, as_service(SCOPE)), 400, "invalid_header")
    unknown = as_service(SCOPE) | {"x-organization-id": str(new_id())}
    problem(await give(api, tenant, body, unknown), 404, "not_found")


WRONG = [
    ({}, ""),
    ({"prices": [a_price()] * 300, "rates": [a_rate()] * 201}, ""),
    ({"prices": [a_price()] * 501}, "/prices"),
    ({"prices": [a_price("0")]}, "/prices/0/price"),
    ({"prices": [a_price("-1")]}, "/prices/0/price"),
    ({"prices": [a_price(187.5)]}, "/prices/0/price"),
    ({"prices": [a_price(), a_price(broker="nobody")]}, "/prices/1/broker"),
    ({"prices": [a_price(symbol="no symbol")]}, "/prices/0/symbol"),
    ({"prices": [a_price(as_of="2026-01-05T12:00:00")]}, "/prices/0/as_of"),
    ({"prices": [a_price(as_of="2126-01-05T12:00:00Z")]}, "/prices/0/as_of"),
    ({"prices": [a_price(as_of="0001-01-01T00:00:00+14:00")]}, "/prices/0/as_of"),
    ({"rates": [a_rate(to_currency="EUR")]}, "/rates/0/to_currency"),
    ({"rates": [{"from_currency": "eur", "to_currency": "USD", "rate": "1"}]}, "/rates/0/from_currency"),
    ({"rates": [a_rate("1e3")]}, "/rates/0/rate"),
]


@pytest.mark.parametrize(("body", "pointer"), WRONG)
async def test_what_is_wrong_is_refused_whole_and_said_where(
    api: RestApi, tenant: Tenant, body: object, pointer: str
) -> None:
    refused = problem(await give(api, tenant, body), 422, "invalid_command")
    assert pointers(refused) == [pointer]
    assert (await shown(api, tenant)).json() == {"data": [], "next_cursor": None, "last_cursor": None}


async def test_a_time_that_a_clock_may_be_ahead_by_is_taken_for_now(api: RestApi, tenant: Tenant) -> None:
    ahead = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    (price,) = (await give(api, tenant, {"prices": [a_price(as_of=ahead)]})).json()["prices"]
    assert datetime.fromisoformat(price["as_of"]) < datetime.fromisoformat(ahead)


async def test_only_the_symbols_that_are_named_are_shown(api: RestApi, tenant: Tenant) -> None:
    await give(api, tenant, {"prices": [a_price(symbol=symbol) for symbol in ("AAPL", "MSFT", "IBM")]})
    assert [each["symbol"] for each in (await shown(api, tenant)).json()["data"]] == ["AAPL", "IBM", "MSFT"]
    named = await shown(api, tenant, symbols="msft,AAPL,NONE")
    assert [each["symbol"] for each in named.json()["data"]] == ["AAPL", "MSFT"]
    for wrong in ("", "AAPL,,MSFT", "no symbol", ",".join(["AAPL"] * 501)):
        refused = problem(await shown(api, tenant, symbols=wrong), 400, "invalid_parameter")
        assert pointers(refused) == ["/symbols"]


async def test_prices_of_one_organization_are_no_other_ones(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    await give(api, tenant, {"prices": [a_price()]})
    assert (await shown(api, await a_tenant(pool))).json() == {"data": [], "next_cursor": None, "last_cursor": None}


async def test_a_disabled_organization_gives_nothing(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    await pool.execute("update organizations set disabled = true")
    problem(await give(api, tenant, {"prices": [a_price()]}), 409, "organization_disabled")
