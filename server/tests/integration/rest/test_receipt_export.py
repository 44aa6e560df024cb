"""What the platform decided, exported by the client and verified by it without the platform."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from openbell import AsyncClient
from openbell.receipts.records import ExportLine, export_lines
from openbell.receipts.verification import Verification, verify_export, verify_receipt
from openbell_server.adapters.postgres.operators.backup_check import check_backup
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, accept
from support.rest.rest_api import RestApi, cancel_body, control_path, create_body, replace_body


@pytest.fixture
async def client(api: RestApi, harness: Harness) -> AsyncIterator[AsyncClient]:
    """As anybody outside has it, on the application of the tests."""
    inside: Any = api.client._transport
    account = str(harness.tenant.account.id)
    async with AsyncClient(harness.tenant.key, "http://openbell.test", account_id=account, transport=inside) as opened:
        yield opened


async def set_rule(api: RestApi, harness: Harness, code: str, mode: str = "HARD", **parameters: Any) -> None:
    answer = await api.client.put(
        control_path(f"rules/{code}", harness.tenant),
        json={"mode": mode, "parameters": parameters, "reason": "a test"},
        headers={"x-api-key": harness.tenant.key},
    )
    assert answer.status_code == 200, answer.text


async def trade(api: RestApi, harness: Harness) -> None:
    """Orders, replaces and cancels that passed, one by one and in a set; refusals at both gates."""
    tenant = harness.tenant
    await accept(harness.pool, *(tenant.submission(a_limit_create()) for _ in range(3)))
    limit = {"quantity": "10", "price": "1.50"}
    created = (await api.submit(tenant, create_body("Limit", **limit) | {"client_reference_id": "zürich"})).json()
    await set_rule(api, harness, "QTY_MAX", quantity="11")
    await set_rule(api, harness, "DUPLICATE", window_millis=60_000)
    await set_rule(api, harness, "OPEN_ORDERS_MAX", mode="SHADOW", count=1)
    later = datetime(2100, 1, 1, tzinfo=UTC).isoformat()
    for body in (
        create_body(quantity="5") | {"deadline": later},
        create_body(quantity="500"),
        create_body(quantity="5"),
        create_body(quantity="5") | {"allow_duplicate": True},
        replace_body(created["intent_id"], quantity="9", price="1.50"),
        cancel_body(created["intent_id"]),
    ):
        await api.submit(tenant, body)
    await set_rule(api, harness, "QTY_MAX", quantity="9")
    await harness.work()


async def exported(client: AsyncClient) -> list[ExportLine]:
    heads = await client.chain()
    actions = [action async for action in client.chained_actions()]
    return list(export_lines(heads, actions, [refusal async for refusal in client.refusals()]))


def verified(lines: list[ExportLine]) -> Verification:
    return verify_export(line.to_json().encode() for line in lines)


async def test_what_the_platform_decided_verifies_without_it(
    api: RestApi, client: AsyncClient, harness: Harness, database: str
) -> None:
    await trade(api, harness)
    lines = await exported(client)
    result = verified(lines)
    assert [str(flaw) for flaw in result.flaws] == []
    assert (result.actions, result.refusals) == (8, 5)
    doors = [json.loads(refusal.text) async for refusal in client.refusals() if refusal.gate == "DOOR"]
    assert len(doors) == 3
    assert all({"intent_id", "seq"} <= set(door["command"]) for door in doors)
    async for refusal in client.refusals():
        assert verify_receipt(refusal.to_json().encode()).holds
        assert verify_receipt((await client.receipt(refusal.id)).to_json().encode()).holds
    assert (await check_backup(database)).is_whole


async def test_heads_that_were_read_before_still_hold_while_more_is_added(
    api: RestApi, client: AsyncClient, harness: Harness
) -> None:
    await trade(api, harness)
    heads = await client.chain()
    adding = asyncio.gather(
        *(api.submit(harness.tenant, create_body(quantity=str(number % 12 + 1))) for number in range(24))
    )
    actions = [action async for action in client.chained_actions()]
    await adding
    refusals = [refusal async for refusal in client.refusals()]
    assert len(refusals) > heads.refusals
    assert verified(list(export_lines(heads, actions, refusals))).holds
    assert verified(await exported(client)).holds


@pytest.mark.parametrize(
    "change",
    [
        "update openbell.intent_actions set quantity = 11 where action_no = 2",
        "update openbell.receipts set body = replace(body, 'PASSED', 'passed') where seq = 1",
        "update openbell.receipts set body = replace(body, '500', '501') where refusal_no = 1",
        "update openbell.receipts set body = replace(body, '\"gate\"', '\"gone\"') where refusal_no = 1",
        "delete from openbell.receipts where refusal_no = 2",
        "update openbell.account_counters set refusal_head = sha256(refusal_head)",
        "update openbell.account_counters set chain_head = sha256(chain_head)",
    ],
)
async def test_what_was_changed_in_the_database_does_not_verify(
    api: RestApi, client: AsyncClient, harness: Harness, change: str
) -> None:
    await trade(api, harness)
    assert verified(await exported(client)).holds
    async with harness.pool.acquire() as connection, connection.transaction():
        await connection.execute("set local session_replication_role = replica")
        assert await connection.execute(change) not in {"UPDATE 0", "DELETE 0"}
    assert not verified(await exported(client)).holds


async def test_a_cancel_of_a_set_is_in_the_chain_with_its_receipt(client: AsyncClient, harness: Harness) -> None:
    created = (await accept(harness.pool, harness.tenant.submission(a_limit_create())))[0].intent_id
    await accept(harness.pool, harness.tenant.submission(a_cancel(created)), harness.tenant.submission())
    actions = [action async for action in client.chained_actions()]
    assert [(action.number, action.chained_from) for action in actions] == [(1, 1), (2, 2), (3, 2)]
    assert verified(await exported(client)).holds
