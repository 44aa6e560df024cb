"""A CREATE alone has a body of its own in the accept step: it must get there what it gets in company."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.intents.intents import accept as accept_set
from openbell_server.adapters.postgres.intents.intents import intent_action
from openbell_server.application.ports.accept_step import Acceptance, Submission
from openbell_server.domain.identifiers import AccountId, ActionId, OrganizationId, Symbol, uuid7
from openbell_server.domain.orders.intents import action_hash
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_limit_create, a_market_create, a_tenant, accept

WRITTEN = (
    *("orders", "intent_actions", "action_states", "receipts", "intent_outbox", "account_events", "idempotency_keys"),
    *("account_counters", "intent_counts", "intent_counted"),
)
NOWHERE = UUID(int=1)


# The names of changes are known to whoever calls: mypy takes no dictionary for a record's fields, here and below.
def of(**changes: object) -> Callable[[Tenant], Submission]:
    return lambda tenant: replace(tenant.submission(key="new"), **changes)  # type: ignore[arg-type]


def of_account(**changes: object) -> Callable[[Tenant], Submission]:
    return lambda tenant: replace(
        tenant.submission(),
        account=replace(tenant.account, **changes),  # type: ignore[arg-type]
    )


def spelled(symbol: str) -> Callable[[Tenant], Submission]:
    return lambda tenant: tenant.submission(replace(a_market_create(), symbol=Symbol(symbol)))


def seen_before(tenant: Tenant) -> Submission:
    return tenant.submission(a_limit_create("9", "3"), key="seen")


CASES: dict[str, Callable[[Tenant], Submission]] = {
    "market": lambda tenant: tenant.submission(),
    "limit": lambda tenant: tenant.submission(a_limit_create("12.50", "0.500"), key="new"),
    "reference": lambda tenant: tenant.submission(a_market_create(reference="ünïcödé — €")),
    "seen key": seen_before,
    "other account": of_account(id=AccountId(NOWHERE)),
    "other organization": of_account(organization_id=OrganizationId(NOWHERE)),
    "stale account": of_account(account_epoch=99),
    "stale organization": of_account(organization_epoch=99),
    "old clock": of(action_id=ActionId(uuid7(1, bytes(10)))),
    "early clock": of(action_id=ActionId(uuid7(2**47, bytes(10)))),
    "symbol": spelled("no such symbol"),
    "long symbol": spelled("A" * 33),
    "no quantity": lambda tenant: tenant.submission(a_limit_create(quantity="0")),
    "no price": lambda tenant: tenant.submission(a_limit_create("0")),
}


async def shape(pool: Pool, tenant: Tenant) -> dict[str, list[dict[str, object]]]:
    """What is written for an account, without what differs from one account and moment to another."""
    shown = {}
    for table in WRITTEN:
        # A minute may end between two accounts.
        lasting = " and span = 'EVER'" if table == "intent_counts" else ""
        rows = await pool.fetch(f"select * from {table} where account_id = $1{lasting}", tenant.account.id)
        shown[table] = sorted(
            (
                {
                    name: value
                    for name, value in row.items()
                    if not isinstance(value, UUID | bytes) and not name.endswith("_at") and name not in _OWN
                }
                for row in rows
            ),
            key=repr,
        )
    return shown


# Numbers of the whole database, places by account and by caller, and the moment that a receipt names.
_OWN = frozenset({"outbox_id", "slot", "principal_id", "body"})


def told(acceptance: Acceptance) -> tuple[object, ...]:
    return (acceptance.status, acceptance.seq, acceptance.number, acceptance.command_hash)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_create_alone_gets_what_it_gets_in_company(pool: Pool, case: Callable[[Tenant], Submission]) -> None:
    alone, together, company = [await a_tenant(pool) for _ in range(3)]
    await accept(pool, alone.submission(key="seen"), company.submission())
    await accept(pool, together.submission(key="seen"), company.submission())
    lone = case(alone)
    (by_itself,) = await accept(pool, lone)
    accompanied, _ = await accept(pool, case(together), company.submission())
    assert told(by_itself) == told(accompanied)
    if by_itself.status != "REPLAYED":
        assert by_itself.intent_id == lone.intent_id
    assert await shape(pool, alone) == await shape(pool, together)


async def test_a_create_that_waits_for_the_account_s_lock_has_the_next_number(pool: Pool) -> None:
    tenant = await a_tenant(pool)

    async def waits() -> bool:
        waiting = "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and datname = $1)"
        return bool(await pool.fetchval(waiting, "openbell_test"))

    async with transaction(pool, Role.ACCEPT) as connection:
        (first,) = await accept_set(connection, [tenant.submission()])
        accepting = asyncio.ensure_future(accept(pool, tenant.submission()))
        await until(waits)
    (second,) = await accepting
    assert (first.number, second.number) == (1, 2)


async def test_an_intent_that_is_there_already_is_refused_alone_and_in_company(pool: Pool) -> None:
    tenant, company = await a_tenant(pool), await a_tenant(pool)
    (first,) = await accept(pool, tenant.submission())
    twin = replace(tenant.submission(), intent_id=first.intent_id)
    (by_itself,) = await accept(pool, twin)
    accompanied, _ = await accept(pool, twin, company.submission())
    assert by_itself.status == accompanied.status == "INVALID"


async def test_hash_and_chain_of_a_create_alone_are_the_domain_s(pool: Pool) -> None:
    tenant = await a_tenant(pool)
    for create in (a_limit_create("0.10", "5.00"), a_market_create(reference="ünïcödé")):
        await accept(pool, tenant.submission(create, key=f"key {create.symbol} {create.client_reference_id}"))
    rows = await pool.fetch("select * from intent_actions order by action_no")
    assert [row["hash"] for row in rows] == [action_hash(intent_action(row)) for row in rows]
    head = bytes(32)
    for row in rows:
        receipt = await pool.fetchval("select hash from receipts where receipt_id = $1", row["receipt_id"])
        head = hashlib.sha256(head + row["hash"] + receipt).digest()
    assert await pool.fetchval("select chain_head from account_counters") == head
