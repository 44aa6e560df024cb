"""The account's log tells of every control that changes for the account, in the transaction that changes it."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.events.events import PostgresEventStore
from openbell_server.adapters.postgres.operators.halt_operators import PostgresHaltOperators
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Override, RuleTerms, SwitchState
from openbell_server.domain.controls.symbol_controls import ManualControl, TimeControl
from openbell_server.domain.errors import Problem
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import Symbol
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_tenant
from support.tenancy.halts import Switchboard, switch_terms

BELOW, ABOVE = (Scope.ACCOUNT, Scope.SYMBOL), (Scope.PLATFORM, Scope.ORGANIZATION, Scope.KEY)
FIVE = RuleTerms(parameters={"quantity": "5"})


@pytest.fixture
async def board(pool: Pool) -> Switchboard:
    return Switchboard(Harness(pool, await a_tenant(pool)))


async def told(pool: Pool, tenant: Tenant) -> list[dict[str, Any]]:
    rows = await pool.fetch(
        "select body from account_events where account_id = $1 and kind = $2 order by event_no",
        tenant.account.id,
        EventKind.CONTROL_CHANGED,
    )
    return [json.loads(row["body"]) for row in rows]


def changes(bodies: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [(body["code"], body["change"], body["version"], body["status"]) for body in bodies]


@pytest.mark.parametrize("scope", BELOW)
async def test_a_rule_is_told_when_it_is_set_changed_and_removed(board: Switchboard, pool: Pool, scope: Scope) -> None:
    rules, tenant, where = PostgresRuleStore(pool), board.harness.tenant, board.address(scope)
    for change in (FIVE, RuleTerms(parameters={"quantity": "6"}), None):
        await rules.save_rule(where, "QTY_MAX", change, "a drill", tenant.principal, None)
    found = await told(pool, tenant)
    assert changes(found) == [
        ("QTY_MAX", "CREATED", 1, None),
        ("QTY_MAX", "CHANGED", 2, None),
        ("QTY_MAX", "REMOVED", 3, None),
    ]
    subject = "AAPL" if scope is Scope.SYMBOL else None
    assert {(b["scope"], b["subject"], b["reason"], b["principal_type"], b["principal_id"]) for b in found} == {
        (scope, subject, "a drill", tenant.principal.kind, tenant.principal.id)
    }


@pytest.mark.parametrize("scope", BELOW)
async def test_a_switch_is_told_with_its_state_and_once_however_many_enact_it(
    board: Switchboard, pool: Pool, scope: Scope
) -> None:
    for act in (board.halt, board.resume):
        await act(scope)
        await asyncio.gather(*(board.sweep() for _ in range(3)))
    assert changes(await told(pool, board.harness.tenant)) == [
        ("SWITCH", "CREATED", 1, "HALTED"),
        ("SWITCH", "CHANGED", 2, "ACTIVE"),
    ]


@pytest.mark.parametrize("scope", ABOVE)
async def test_a_switch_above_the_account_is_told_by_who_enacts_it_once(
    board: Switchboard, pool: Pool, scope: Scope
) -> None:
    tenant = board.harness.tenant
    await board.halt(scope)
    assert await told(pool, tenant) == []
    await asyncio.gather(*(board.sweep() for _ in range(3)))
    await board.halt(scope, "REDUCE_ONLY")
    await board.sweep()
    await board.resume(scope)
    await asyncio.gather(*(board.sweep() for _ in range(3)))
    found = await told(pool, tenant)
    assert changes(found) == [
        ("SWITCH", "CREATED", 1, "HALTED"),
        ("SWITCH", "CHANGED", 2, "REDUCE_ONLY"),
        ("SWITCH", "CHANGED", 3, "ACTIVE"),
    ]
    who = ("OPERATOR", None) if scope is Scope.PLATFORM else (tenant.principal.kind, tenant.principal.id)
    subject = tenant.principal.id if scope is Scope.KEY else None
    assert {(b["scope"], b["subject"], b["principal_type"], b["principal_id"]) for b in found} == {
        (scope, subject, *who)
    }


@pytest.mark.parametrize("scope", [Scope.ACCOUNT, Scope.ORGANIZATION])
async def test_a_halt_whose_time_is_over_is_told_as_expired(board: Switchboard, pool: Pool, scope: Scope) -> None:
    until = await DatabaseClock(pool).now() + timedelta(hours=1)
    await board.set(board.address(scope), Override(terms=switch_terms(), expires_at=until))
    await board.sweep()
    await pool.execute("update control_rules set override_expires_at = clock_timestamp()")
    await board.sweep()
    assert changes(await told(pool, board.harness.tenant)) == [
        ("SWITCH", "CREATED", 1, "HALTED"),
        ("SWITCH", "EXPIRED", 1, "ACTIVE"),
    ]


async def test_an_operator_s_halt_of_an_account_is_told_with_who_and_why(board: Switchboard, pool: Pool) -> None:
    operators = PostgresHaltOperators(pool, "olga")
    await operators.set_switch(None, board.harness.tenant.account.id, SwitchState.HALTED, "runaway")
    (body,) = await told(pool, board.harness.tenant)
    assert (body["status"], body["reason"], body["principal_type"], body["principal_id"]) == (
        *("HALTED", "runaway"),
        *("OPERATOR", "olga"),
    )


async def test_both_controls_of_a_symbol_are_told_and_the_event_is_about_the_symbol(
    board: Switchboard, pool: Pool
) -> None:
    tenant, controls = board.harness.tenant, PostgresControlStore(pool)
    account = tenant.account
    where = account.organization_id, account.id, Symbol("AAPL")
    for off in (True, False):
        await controls.set_manual(*where, ManualControl(manually_disabled=off, manual_reason="news"), tenant.principal)
    await controls.change_time(*where, lambda _: TimeControl(stale_order_millis=5), tenant.principal)
    assert changes(await told(pool, tenant)) == [
        ("SYMBOL_DISABLED", "CREATED", 1, None),
        ("SYMBOL_DISABLED", "CHANGED", 2, None),
        ("TIME_CONTROL", "CREATED", 1, None),
    ]
    events = await PostgresEventStore(pool).read_after(account.organization_id, account.id, 0, 10)
    assert {(event.kind, event.symbol) for event in events} == {(EventKind.CONTROL_CHANGED, "AAPL")}


async def test_a_change_that_is_refused_tells_nothing(board: Switchboard, pool: Pool) -> None:
    tenant = board.harness.tenant
    with pytest.raises(Problem, match="the rule is not set"):
        await PostgresRuleStore(pool).save_rule(
            board.address(Scope.ACCOUNT), "QTY_MAX", FIVE, "a drill", tenant.principal, [7]
        )
    assert await told(pool, tenant) == []
