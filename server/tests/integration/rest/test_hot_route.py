"""The short way of a command past the framework: the same answers as the long way, to the byte."""

import json
import random
from collections import Counter
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.intents import crowds
from openbell_server.transport.rest.intents.submit_fast_path import BODY_BYTES_MAX, match_fast_path
from support.builders.tenant import Tenant, a_tenant
from support.rest.rest_api import RestApi, cancel_body, create_body, intents_of, replace_body, rest_api

REQUESTS = 500
_JSON = ("content-type", "application/json")


@dataclass(frozen=True)
class Asked:
    """A request, which both ways are asked to answer."""

    account: str
    content: bytes
    headers: list[tuple[str, str]] = field(default_factory=list)


def asked_at_random(
    dice: random.Random, tenant: Tenant, other_organization: Tenant, intents: list[str]
) -> Iterator[Asked]:
    """Commands of every kind, and mistakes in every part of them."""
    while True:
        key = ("x-api-key", tenant.key)
        named = ("idempotency-key", str(uuid4()))
        body: object = dice.choice(
            [
                create_body(),
                create_body("Limit", price="1.50", time_in_force="DAY"),
                create_body("StopLimit", price="1.50", stop_price="1.40"),
                {**create_body(), "client_reference_id": "mine"},
                cancel_body(dice.choice(intents)),
                replace_body(dice.choice(intents), "Limit", quantity="20", price="2"),
                cancel_body(str(uuid4())),
                create_body(symbol="no symbol"),
                create_body(quantity="-1"),
                create_body(quantity=10),
                {"command": {"type": "SELL"}},
                {**create_body(), "extra": 1},
                [],
            ]
        )
        content = dice.choice([json.dumps(body).encode()] * 6 + [b"{", b"", b'{"a":1,"a":2}', b"\xff", b"[" * 64])
        headers = dice.choice(
            [
                *[[key, _JSON, named]] * 8,
                [key, _JSON],
                [_JSON],
                [("x-api-key", "wrong"), _JSON],
                [key, _JSON, ("authorization", "Bearer x")],
                [key, _JSON, ("idempotency-key", "a b")],
                [key, _JSON, named, ("idempotency-key", "twice")],
                [key, _JSON, ("x-organization-id", str(uuid4()))],
                [("x-api-key", other_organization.key), _JSON, named],
                [key, ("content-type", "text/plain")],
                [key, ("content-type", "text/plain"), _JSON],
                [key, ("content-type", "application/json; charset=utf-8"), named],
            ]
        )
        account = dice.choice([str(tenant.account.id)] * 8 + [str(uuid4()), str(tenant.account.id).upper()])
        yield Asked(account, content, [*headers, ("x-request-id", uuid4().hex)])


async def answer(api: RestApi, asked: Asked, end: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    told: httpx.Response = await api.client.post(
        f"/v1/accounts/{asked.account}/intents{end}", content=asked.content, headers=asked.headers
    )
    return told.status_code, told.headers.raw, told.content


async def test_both_ways_answer_alike_to_the_byte(api: RestApi, pool: Pool) -> None:
    tenant, other_organization, dice = await a_tenant(pool), await a_tenant(pool), random.Random(11)
    first = [(await api.submit(tenant, create_body("Limit", price="1"))).json()["intent_id"] for _ in range(40)]
    statuses: Counter[int] = Counter()
    requests = asked_at_random(dice, tenant, other_organization, first)
    for number in range(REQUESTS):
        asked = next(requests)
        # What was accepted once is the same record for both from then on; without a key it would be another one.
        once = await answer(api, asked, "/" * (number % 2))
        if once[0] == 202 and not any(name == "idempotency-key" for name, _ in asked.headers):
            continue
        short, long = await answer(api, asked, ""), await answer(api, asked, "/")
        assert short == long, asked
        statuses[short[0]] += 1
    assert set(statuses) >= {202, 400, 401, 403, 404, 415, 422}
    assert statuses.total() > REQUESTS * 0.9


async def test_an_accepted_command_is_told_alike_on_both_ways(api: RestApi, pool: Pool) -> None:
    tenant = await a_tenant(pool)
    headers = [("x-api-key", tenant.key), _JSON]
    asked = Asked(str(tenant.account.id), json.dumps(create_body()).encode(), headers)
    short, long = await answer(api, asked, ""), await answer(api, asked, "/")
    assert short[0] == long[0] == 202
    assert [name for name, _ in short[1]] == [name for name, _ in long[1]]
    assert list(json.loads(short[2])) == list(json.loads(long[2]))


async def test_a_command_goes_the_short_way(api: RestApi, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant, taken = await a_tenant(pool), []

    def watched(scope: MutableMapping[str, Any]) -> AccountId | None:
        taken.append(match_fast_path(scope))
        return taken[-1]

    monkeypatch.setattr(crowds, "match_fast_path", watched)
    await api.submit(tenant, create_body())
    await api.client.post(intents_of(tenant) + "/", json=create_body())
    await api.client.post(intents_of(tenant) + "?a=1", json=create_body())
    await api.submit_raw(tenant, b" " * (BODY_BYTES_MAX + 1))
    await api.read(tenant)
    assert taken == [tenant.account.id, None, None, None, None]


async def test_both_ways_are_counted_under_one_route(pool: Pool) -> None:
    tenant, seen = await a_tenant(pool), []
    async with rest_api(pool, observe=lambda method, route, status, _: seen.append((method, route, status))) as api:
        for end in ("", "/"):
            sent = {"x-api-key": tenant.key}
            await api.client.post(intents_of(tenant) + end, json=create_body(), headers=sent)
    assert seen == [("POST", "/v1/accounts/{account_id}/intents", 202)] * 2
