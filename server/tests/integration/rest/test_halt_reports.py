"""The halt report over REST: what it says from the halt to the broker's last word."""

from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.orders.broker_reports import ReportStatus, Unknown
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_limit_create, a_report, a_tenant, described
from support.rest.rest_api import RestApi, problem
from support.tenancy.halts import Switchboard


@pytest.fixture
def board(pool: Pool, tenant: Tenant) -> Switchboard:
    return Switchboard(Harness(pool, tenant))


async def report(api: RestApi, tenant: Tenant) -> dict[str, Any]:
    answer = await api.client.get(f"/v1/accounts/{tenant.account.id}/halt-report", headers={"x-api-key": tenant.key})
    assert answer.status_code == 200, answer.json()
    return dict(answer.json())


async def test_from_the_halt_to_the_broker_s_last_word(api: RestApi, tenant: Tenant, board: Switchboard) -> None:
    harness = board.harness
    intent, order_id = await harness.working()
    told = await report(api, tenant)
    assert (told["halts"], told["no_working_orders"], told["open_orders"]) == ([], False, 1)
    await board.halt()
    await board.sweep()
    told = await report(api, tenant)
    (halt,) = told["halts"]
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
    assert [(order["intent_id"], order["in_doubt"]) for order in told["orders"]] == [(str(intent), False)]
    await harness.work()
    await harness.report(a_report(ReportStatus.CANCELED, client_order_id=order_id))
    told = await report(api, tenant)
    assert told["no_working_orders"] is None
    assert told["why"].startswith("the broker's list was not read since")
    await harness.reconcile()
    told = await report(api, tenant)
    (halt,) = told["halts"]
    assert (told["no_working_orders"], told["why"]) == (True, None)
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
    assert (told["no_working_orders"], told["open_orders"], told["in_doubt"]) == (False, 1, 1)
    assert [(order["intent_id"], order["in_doubt"]) for order in told["orders"]] == [(str(intent), True)]
    (command,) = told["halts"][0]["in_flight_commands"]
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
    assert (told["no_working_orders"], told["external_open_orders"], told["external_orders"]) == (False, 1, ["x1"])


@pytest.mark.parametrize("scope", [Scope.SYMBOL, Scope.KEY])
async def test_the_halt_of_a_part_proves_nothing_about_the_whole(
    api: RestApi, tenant: Tenant, board: Switchboard, scope: Scope
) -> None:
    await board.halt(scope)
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    assert (told["no_working_orders"], [halt["scope"] for halt in told["halts"]]) == (None, [scope])
    assert "as a whole is not halted" in told["why"]


@pytest.mark.parametrize("scope", [Scope.PLATFORM, Scope.ORGANIZATION])
async def test_a_halt_of_all_is_every_account_s_and_the_platform_names_no_operator(
    api: RestApi, tenant: Tenant, board: Switchboard, scope: Scope
) -> None:
    await board.halt(scope)
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    halt, expected = told["halts"][0], ("API_KEY", tenant.principal.id)
    assert told["no_working_orders"]
    assert (halt["principal_type"], halt.get("principal_id")) == (
        ("OPERATOR", None) if scope is Scope.PLATFORM else expected
    )


async def test_where_rules_are_only_watched_a_halt_proves_nothing(
    api: RestApi, tenant: Tenant, board: Switchboard, pool: Pool
) -> None:
    await pool.execute("update organizations set paper_enforcement = 'shadow'")
    await board.halt()
    await board.sweep()
    await board.harness.reconcile()
    told = await report(api, tenant)
    assert told["no_working_orders"] is None
    assert "only watches" in told["why"]


async def test_a_door_after_the_halt_would_show(api: RestApi, tenant: Tenant, board: Switchboard, pool: Pool) -> None:
    await board.harness.working()
    await board.halt(cancel_working=False)
    assert (await report(api, tenant))["halts"][0]["doors_opened_after"] == 0
    await board.harness.accept(a_limit_create())
    # As if a door had opened that the switch did not shut.
    await pool.execute(
        "update action_states set state = 'DISPATCHING', attempt_id = gen_random_uuid(),"
        " send_started_at = clock_timestamp() where state = 'QUEUED'"
    )
    assert (await report(api, tenant))["halts"][0]["doors_opened_after"] == 1


async def test_a_report_of_another_s_account_or_without_the_entitlement_is_refused(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    other = await a_tenant(pool, entitlements=frozenset())
    path = f"/v1/accounts/{other.account.id}/halt-report"
    theirs = await api.client.get(path, headers={"x-api-key": tenant.key})
    problem(theirs, 404, "not_found")
    own = await api.client.get(path, headers={"x-api-key": other.key})
    problem(own, 403, "entitlement_required")
