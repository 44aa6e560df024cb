"""Receipts over REST: each can be read, found by its intent, and checked against its hash and its chain."""

import hashlib
import json
from typing import Any
from uuid import UUID

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.hash_chains import CHAIN_START
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.orders.action_chain import ActionChain
from support.builders.refusals import a_refusal, refuse
from support.builders.tenant import Tenant, a_cancel, a_limit_create, a_tenant, accept, new_id
from support.rest.openapi_conformance import Conformance
from support.rest.rest_api import RestApi, create_body, pointers, problem


def receipts_of(tenant: Tenant) -> str:
    return f"/v1/accounts/{tenant.account.id}/receipts"


async def get(api: RestApi, tenant: Tenant, path: str, **query: str | int) -> httpx.Response:
    return await api.client.get(path, params=query or None, headers={"x-api-key": tenant.key})


async def test_the_receipt_of_an_accepted_command_is_shown_with_what_proves_it(api: RestApi, tenant: Tenant) -> None:
    accepted = (await api.submit(tenant, create_body())).json()
    answer = await get(api, tenant, f"{receipts_of(tenant)}/{accepted['receipt_id']}")
    receipt = answer.json()
    assert answer.status_code == 200
    assert set(receipt) == {
        *("id", "account_id", "intent_id", "seq", "verdict", "gate", "created_at", "hash", "receipt", "text"),
    }
    assert (receipt["id"], receipt["intent_id"], receipt["seq"]) == (accepted["receipt_id"], accepted["intent_id"], 1)
    assert (receipt["verdict"], receipt["gate"]) == ("PASSED", "ACCEPT")
    assert receipt["hash"] == hashlib.sha256(receipt["text"].encode()).hexdigest()
    assert json.loads(receipt["text"]) == receipt["receipt"]


async def test_a_command_s_receipt_is_followed_by_that_of_its_refusal_at_the_door(
    api: RestApi, pool: Pool, tenant: Tenant
) -> None:
    created = (await accept(pool, tenant.submission(a_limit_create())))[0].intent_id
    await accept(pool, tenant.submission(a_cancel(created)))
    await refuse(pool, tenant, a_refusal("DOOR"), created, 1)
    listed = (await get(api, tenant, receipts_of(tenant), intent_id=str(created))).json()["data"]
    assert [(each["seq"], each["gate"], each["verdict"]) for each in listed] == [
        (1, "ACCEPT", "PASSED"),
        (1, "DOOR", "REFUSED"),
        (2, "ACCEPT", "PASSED"),
    ]
    paged, _ = await api.read_pages(f"{receipts_of(tenant)}?intent_id={created}", {"x-api-key": tenant.key}, 1)
    assert paged == listed
    problem(await get(api, tenant, receipts_of(tenant), intent_id=str(new_id())), 404, "not_found")


async def test_refusals_are_listed_by_their_numbers_page_by_page(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    ids = [await refuse(pool, tenant, a_refusal(str(number))) for number in range(5)]
    await api.submit(tenant, create_body())
    first = (await get(api, tenant, receipts_of(tenant), refused="true", limit=3)).json()
    rest = await get(api, tenant, receipts_of(tenant), refused="true", next_cursor=first["next_cursor"])
    listed = [*first["data"], *rest.json()["data"]]
    assert [(each["id"], each["refusal_no"]) for each in listed] == [(str(each), no) for no, each in enumerate(ids, 1)]
    assert all("intent_id" not in each and "seq" not in each for each in listed)
    assert rest.json()["next_cursor"] is None


@pytest.mark.parametrize(
    "query", [{"refused": "false"}, {"refused": ""}, {"refused": "no", "intent_id": str(UUID(int=1))}]
)
async def test_receipts_of_all_accepted_commands_are_not_listed(
    api: RestApi, tenant: Tenant, query: dict[str, str]
) -> None:
    refused = problem(await get(api, tenant, receipts_of(tenant), **query), 400, "invalid_parameter")
    assert pointers(refused) == ["/refused"]


async def test_the_listed_actions_and_refusals_lead_to_the_heads(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    created = (await accept(pool, tenant.submission(a_limit_create())))[0].intent_id
    await accept(pool, tenant.submission(), tenant.submission(a_cancel(created)), tenant.submission())
    for number in range(3):
        await refuse(pool, tenant, a_refusal(str(number)))
    url = f"/v1/accounts/{tenant.account.id}/chain"
    heads = (await get(api, tenant, url)).json()["heads"]
    assert (heads["actions"], heads["refusals"]) == (4, 3)
    actions, _ = await api.read_pages(url, {"x-api-key": tenant.key}, 3)
    chain = ActionChain()
    for action in actions:
        hashes = bytes.fromhex(action["hash"]), bytes.fromhex(action["receipt_hash"])
        chain.add(action["number"], action["chained_from"], *hashes)
        assert hashes[1] == hashlib.sha256(action["receipt_text"].encode()).digest()
    head = chain.head()
    assert head is not None
    assert heads["chain_head"] == head.hex()
    refused: list[dict[str, Any]] = (await get(api, tenant, receipts_of(tenant), refused="true")).json()["data"]
    head = CHAIN_START
    for each in refused:
        head = hashlib.sha256(head + bytes.fromhex(each["hash"])).digest()
    assert heads["refusal_head"] == head.hex()


async def test_every_answer_is_as_the_description_says(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    conformance = Conformance((await api.client.get("/openapi.json")).json())
    intent = (await accept(pool, tenant.submission(a_limit_create())))[0].intent_id
    accepted = (await api.submit(tenant, create_body())).json()["receipt_id"]
    refused = await refuse(pool, tenant, a_refusal("DOOR"), intent, 1)
    account = f"/v1/accounts/{tenant.account.id}"
    answers = [
        await get(api, tenant, f"{account}/{path}")
        for path in (
            f"receipts/{accepted}",
            f"receipts/{refused}",
            f"receipts/{new_id()}",
            "receipts?refused=true",
            "receipts",
            "receipts?refused=true&next_cursor=x",
            f"receipts?intent_id={intent}",
            "chain",
        )
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 200, 200, 400, 200, 200]
    assert [found for answer in answers for found in conformance.breaks(answer)] == []


async def test_no_organization_reads_a_receipt_of_another_s_account(api: RestApi, pool: Pool, tenant: Tenant) -> None:
    receipt = await refuse(pool, tenant, a_refusal())
    intent: IntentId = (await accept(pool, tenant.submission()))[0].intent_id
    other_organization = await a_tenant(pool)
    account = f"/v1/accounts/{tenant.account.id}"
    for path in (
        f"receipts/{receipt}",
        f"receipts?intent_id={intent}",
        "receipts?refused=true",
        "chain",
    ):
        problem(await get(api, other_organization, f"{account}/{path}"), 404, "not_found")
    own = f"/v1/accounts/{other_organization.account.id}"
    problem(await get(api, other_organization, f"{own}/receipts/{receipt}"), 404, "not_found")
    problem(await get(api, other_organization, f"{own}/receipts?intent_id={intent}"), 404, "not_found")
