"""Events of every account of an organization over REST, and those of one intent."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.events import follow_events, read_events
from openbell_server.domain.access.accounts import Environment
from support.builders.tenant import Tenant, accept, an_account
from support.rest.rest_api import RestApi, create_body
from support.rest.served_events import Server, accepting, asked, events_of, frames_of


async def test_a_stream_of_every_account_goes_on_without_a_gap_wherever_it_is_cut(
    pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_events, "TOKEN_EVERY", 4)
    organization_id, count = tenant.account.organization_id, 25
    tenants = [tenant]
    for environment in (Environment.PAPER, Environment.LIVE):
        account = await an_account(pool, organization_id, environment)
        tenants.append(replace(tenant, account=account))
    followed = {str(each.account.id) for each in tenants if each.account.environment is Environment.PAPER}
    for each in tenants:
        await asked(pool, each, count)
    seen: dict[str, list[int]] = {account_id: [] for account_id in followed}
    token: str | None = None
    async with asyncio.timeout(60), Server(pool).serving() as client:
        while sum(map(len, seen.values())) < count * len(followed):
            url = "/v1/events" if token else "/v1/events?start=BEGINNING"
            async with client.stream("GET", url, headers=accepting(tenant, token)) as response:
                left = 9
                async for sealed, name, data in frames_of(response):
                    token = sealed or token
                    if name == "intent_action":
                        numbers = seen[data["account_id"]]
                        # What came after the last token comes again.
                        if data["account_seq"] > len(numbers):
                            assert data["account_seq"] == len(numbers) + 1
                            numbers.append(data["account_seq"])
                        left -= 1
                        if not left or sum(map(len, seen.values())) == count * len(followed):
                            break


async def test_a_command_that_a_control_refuses_is_in_the_log(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    control = f"/v1/controls/accounts/{tenant.account.id}/symbols/AAPL"
    body = {"manually_disabled": True, "manual_reason": "news"}
    assert (await api.client.put(control, json=body, headers={"x-api-key": tenant.key})).status_code == 200
    refused = await api.submit(tenant, create_body())
    receipt = refused.json()["receipt"]
    page = (await api.client.get(events_of(tenant, symbols="AAPL"), headers={"x-api-key": tenant.key})).json()
    event = page["data"][-1]
    assert (event["type"], event["account_seq"]) == ("INTENT_REFUSED", page["newest_seq"])
    terms = {
        name: receipt["command"][name] for name in ("action_type", "symbol", "order_side", "order_type", "quantity")
    }
    codes = [rule["code"] for rule in receipt["rules"] if rule["verdict"] == "REFUSED"]
    told = event["intent_refused"]
    assert told["receipt_id"] == receipt["id"]
    assert {name: told[name] for name in terms} == terms
    assert len(told["codes"]) == len(codes) > 0
    only = (await api.client.get(events_of(tenant, types="INTENT_REFUSED"), headers={"x-api-key": tenant.key})).json()
    assert [each["account_seq"] for each in only["data"]] == [event["account_seq"]]


async def test_the_events_of_one_intent_are_found_in_a_long_log(
    api: RestApi, pool: Pool, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asked(pool, tenant, 30)
    # An hour later, so that the search by time has something to skip.
    await pool.execute(
        "alter table account_events disable trigger user; update account_events set occurred_at = occurred_at -"
        " interval '1 hour'; alter table account_events enable trigger user"
    )
    (wanted,) = await accept(pool, tenant.submission())
    await asked(pool, tenant, 3)
    monkeypatch.setattr(read_events, "LOOKED_AT_MAX", 4)

    async def read(intent_id: object) -> dict[str, Any]:
        answer = await api.client.get(events_of(tenant, intent_id=str(intent_id)), headers={"x-api-key": tenant.key})
        page: dict[str, Any] = answer.json()
        return page

    page = await read(wanted.intent_id)
    assert [event["account_seq"] for event in page["data"]] == [31]
    assert page["next_cursor"] is None
    for nobodys in (UUID(int=2**128 - 1), UUID(int=0)):
        assert (await read(nobodys))["data"] == []
