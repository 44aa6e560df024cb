"""The halt report over REST: what it says from the halt to the broker's last word."""

from datetime import datetime, timedelta
from typing import Any
from unittest.mock import ANY

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Override
from openbell_server.domain.orders.broker_reports import Accepted, ReportStatus, Unknown
from support.brokers.paper_broker import until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_limit_create, a_report, a_tenant, described
from support.rest.openapi_conformance import Conformance
from support.rest.rest_api import RestApi, pointers, problem
from support.tenancy.halts import Switchboard, switch_terms


@pytest.fixture
def board(pool: Pool, tenant: Tenant) -> Switchboard:
    return Switchboard(Harness(pool, tenant))


async def reports(api: RestApi, tenant: Tenant, limit: int = 50) -> list[dict[str, Any]]:
    path = f"/v1/halt-reports?account_id={tenant.account.id}"
    found, _ = await api.read_pages(path, {"x-api-key": tenant.key}, limit)
    return found


async def report(api: RestApi, tenant: Tenant) -> dict[str, Any]:
    """Of the only halt."""
    (found,) = await reports(api, tenant)
    return found


async def test_from_the_halt_to_the_broker_s_last_word(api: RestApi, tenant: Tenant, board: Switchboard) -> None:
    harness = board.harness
    intent, order_id = await harness.working()
    assert await reports(api, tenant) == []
    await board.halt()
    await board.sweep()
    told = halt = await report(api, tenant)
    assert {name: halt[name] for name in ("scope", "status", "version", "cancel_working", "reason")} == {
        "scope": "ACCOUNT",
        "status": "HALTED",
        "version": 1,
        "cancel_working": True,
        "reason": "a drill",
    }
    assert (halt["principal_type"], halt["principal_id"]) == ("API_KEY", tenant.principal.id)
    assert (halt["doors_opened_after"], halt["in_flight"]) == (0, 0)
    assert halt["cancels"] == {
        "asked": 1,
        "confirmed": 0,
        "ended_otherwise": 0,
        "waiting": 1,
        "last_confirmed_at": None,
    }
    assert [(order["intent_id"], order["in_doubt"]) for order in told["account"]["orders"]] == [(str(intent), False)]
    await harness.work()
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    told = await report(api, tenant)
    assert told["no_working_orders"] is None
    assert told["why"].startswith("the broker's list was not read since")
    await harness.reconcile()
    told = halt = await report(api, tenant)
    assert (told["no_working_orders"], told["why"], told["until"]) == (True, None, None)
    assert told["compared_at"] > halt["cancels"]["last_confirmed_at"] > halt["since"]
    assert (halt["cancels"]["confirmed"], halt["cancels"]["waiting"]) == (1, 0)


async def test_a_comparison_is_asked_for_until_it_began_after_the_last_end(
    api: RestApi, tenant: Tenant, board: Switchboard
) -> None:
    _, order_id = await board.harness.working()
    await board.halt()
    await board.sweep()
    await board.harness.work()
    await board.harness.reconcile()
    board.compared.clear()
    await board.harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    assert (await report(api, tenant))["no_working_orders"] is None
    await board.sweep()
    assert len(board.compared) == 1
    await board.harness.reconcile()
    await board.sweep()
    await board.sweep()
    assert len(board.compared) == 1
    assert (await report(api, tenant))["no_working_orders"] is True


async def test_what_is_in_doubt_is_listed_and_no_answer_is_given_before_it_settles(
    api: RestApi, tenant: Tenant, board: Switchboard
) -> None:
    board.harness.broker.script.append(Unknown("no answer"))
    intent = await board.harness.accept(a_limit_create())
    await board.harness.work()
    await board.halt()
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    assert (told["no_working_orders"], told["account"]["open_orders"], told["account"]["in_doubt"]) == (False, 1, 1)
    assert [(order["intent_id"], order["in_doubt"]) for order in told["account"]["orders"]] == [(str(intent), True)]
    (command,) = told["in_flight_commands"]
    assert (command["status"], command["settled_at"]) == ("UNKNOWN", None)


async def test_an_open_order_at_the_broker_that_is_not_ours_counts(
    api: RestApi, tenant: Tenant, board: Switchboard
) -> None:
    theirs = described(a_report(ReportStatus.WORKING, client_order_id="theirs"), "x1")
    board.harness.broker.book["theirs"] = theirs
    await board.halt()
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    account = told["account"]
    assert (told["no_working_orders"], account["external_open_orders"], account["external_orders"]) == (
        False,
        1,
        ["x1"],
    )


@pytest.mark.parametrize("scope", [Scope.SYMBOL, Scope.KEY])
async def test_the_halt_of_a_part_proves_nothing_about_the_whole(
    api: RestApi, tenant: Tenant, board: Switchboard, scope: Scope
) -> None:
    await board.halt(scope)
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    assert (told["no_working_orders"], told["scope"]) == (None, scope)
    assert "as a whole is not halted" in told["why"]


@pytest.mark.parametrize("scope", [Scope.PLATFORM, Scope.ORGANIZATION])
async def test_a_halt_of_all_is_every_account_s_and_the_platform_names_no_operator(
    api: RestApi, tenant: Tenant, board: Switchboard, scope: Scope
) -> None:
    await board.halt(scope)
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    expected = ("API_KEY", tenant.principal.id)
    assert told["no_working_orders"]
    assert (told["principal_type"], told.get("principal_id")) == (
        ("OPERATOR", None) if scope is Scope.PLATFORM else expected
    )


async def test_where_rules_are_only_watched_a_halt_proves_nothing(
    api: RestApi, tenant: Tenant, board: Switchboard, pool: Pool
) -> None:
    await pool.execute("update organizations set paper_enforcement = 'SHADOW'")
    await board.halt()
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    assert told["no_working_orders"] is None
    assert "only watches" in told["why"]


async def test_a_door_after_the_halt_would_show(api: RestApi, tenant: Tenant, board: Switchboard, pool: Pool) -> None:
    await board.harness.working()
    await board.halt(cancel_working=False)
    assert (await report(api, tenant))["doors_opened_after"] == 0
    await board.harness.accept(a_limit_create())
    # As if a door had opened that the switch did not shut.
    await pool.execute(
        "update action_states set state = 'DISPATCHING', attempt_id = gen_random_uuid(),"
        " send_started_at = clock_timestamp() where state = 'QUEUED'"
    )
    assert (await report(api, tenant))["doors_opened_after"] == 1


async def test_a_report_of_another_s_account_or_without_the_entitlement_is_refused(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    other = await a_tenant(pool, entitlements=frozenset())
    path = f"/v1/halt-reports?account_id={other.account.id}"
    theirs = await api.client.get(path, headers={"x-api-key": tenant.key})
    problem(theirs, 404, "not_found")
    own = await api.client.get(path, headers={"x-api-key": other.key})
    problem(own, 403, "entitlement_required")


async def test_a_report_is_kept_after_the_halt_with_its_counts_and_when_it_ended(
    api: RestApi, tenant: Tenant, board: Switchboard
) -> None:
    conformance = Conformance((await api.client.get("/openapi.json")).json())
    harness = board.harness
    _, order_id = await harness.working()
    await harness.accept(a_limit_create())
    await board.halt()
    await board.sweep()
    # Cancels go alone.
    await harness.work()
    await harness.work()
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    await harness.reconcile()
    await board.sweep()
    before = await report(api, tenant)
    assert (before["skipped"], before["cancels"]["confirmed"], before["doors_opened_after"]) == (1, 1, 0)
    lifted = await board.resume()
    await board.sweep()
    # What is sent after the halt is not the halt's.
    await harness.accept(a_limit_create())
    harness.broker.script.append(Accepted("b9"))
    assert len(await harness.work()) == 1
    after = await report(api, tenant)
    assert datetime.fromisoformat(after["until"]) == lifted.updated_at
    changed = {"until", "no_working_orders", "why", "compared_at", "account"}
    assert {name: after[name] for name in after.keys() - changed} == {
        name: before[name] for name in before.keys() - changed
    }
    assert (after["no_working_orders"], "account" in after) == (None, False)
    assert after["since"] < after["compared_at"] < after["until"]
    answer = await api.client.get(f"/v1/halt-reports?account_id={tenant.account.id}", headers={"x-api-key": tenant.key})
    assert conformance.breaks(answer) == []


async def test_every_halt_has_its_report_the_newest_first_page_by_page(
    api: RestApi, tenant: Tenant, board: Switchboard
) -> None:
    other = await a_tenant(board.harness.pool)
    await Switchboard(Harness(board.harness.pool, other)).halt()
    # None of them is seen by an executor.
    await board.halt()
    await board.halt(state="REDUCE_ONLY")
    await board.resume()
    await board.halt(Scope.PLATFORM)
    await board.resume(Scope.PLATFORM)
    await board.halt(Scope.SYMBOL)
    found = await reports(api, tenant, 1)
    assert [(each["scope"], each["status"], each["until"] is None) for each in found] == [
        ("SYMBOL", "HALTED", True),
        ("PLATFORM", "HALTED", False),
        ("ACCOUNT", "REDUCE_ONLY", False),
        ("ACCOUNT", "HALTED", False),
    ]
    assert found[3]["until"] == found[2]["since"]
    assert len({each["id"] for each in found}) == 4
    assert await reports(api, tenant, 3) == [
        each | {"account": found[0]["account"] | {"as_of": ANY}} if "account" in each else each for each in found
    ]


async def test_a_halt_that_expires_and_the_one_after_it_are_two(
    api: RestApi, tenant: Tenant, board: Switchboard, pool: Pool
) -> None:
    now: datetime = await pool.fetchval("select clock_timestamp()")
    expires_at = now + timedelta(seconds=1)
    await board.halt(state="REDUCE_ONLY")
    address = board.address(Scope.ACCOUNT)
    await board.set(address, Override(terms=switch_terms("HALTED"), expires_at=expires_at))

    async def it_expired() -> bool:
        return len(await reports(api, tenant)) == 3

    await until(it_expired, 60)
    after, override, first = await reports(api, tenant)
    assert [each["status"] for each in (after, override, first)] == ["REDUCE_ONLY", "HALTED", "REDUCE_ONLY"]
    assert (after["until"], override["until"], first["until"]) == (None, after["since"], override["since"])
    assert datetime.fromisoformat(after["since"]) == expires_at


async def test_an_account_has_no_report_of_a_halt_that_ended_before_it_was_opened(
    api: RestApi, pool: Pool, tenant: Tenant, board: Switchboard
) -> None:
    await board.halt(Scope.PLATFORM)
    await board.resume(Scope.PLATFORM)
    later = await a_tenant(pool)
    assert (len(await reports(api, tenant)), await reports(api, later)) == (1, [])


async def test_reports_are_asked_for_by_account(api: RestApi, tenant: Tenant) -> None:
    answer = await api.client.get("/v1/halt-reports", headers={"x-api-key": tenant.key})
    assert pointers(problem(answer, 400, "invalid_parameter")) == ["/account_id"]
