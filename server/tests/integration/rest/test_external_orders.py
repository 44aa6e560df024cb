"""Orders that nobody asked for here, and accounts that stopped by themselves, over REST and the command line."""

import json
from dataclasses import replace
from decimal import Decimal

from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.broker_guarantees import LookUp
from openbell_server.domain.orders.broker_reports import ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderSide, Terms, TimeInForce
from support.brokers.scripted_broker import Harness
from support.builders.tenant import Tenant, a_limit_create, a_report, a_tenant, an_execution, described, new_id
from support.environment.command_line import CommandLine
from support.rest.rest_api import RestApi, create_body, problem

TERMS = Terms(quantity=Decimal(25), limit_price=Decimal("191.20"), stop_price=None, time_in_force=TimeInForce.DAY)


async def test_orders_of_others_are_listed_page_by_page_as_the_broker_tells_them(
    api: RestApi, harness: Harness
) -> None:
    for number in range(3):
        sold = a_report(ReportStatus.FILLED, [an_execution(number, 25)], client_order_id=f"by-phone-{number}")
        harness.broker.book[str(number)] = described(replace(sold, terms=TERMS), f"x{number}", side=OrderSide.SELL)
    await harness.reconcile()
    url, headers = f"/v1/accounts/{harness.account.account_id}/external-orders", {"x-api-key": harness.tenant.key}
    first = (await api.client.get(url, headers=headers, params={"limit": 2})).json()
    assert first["data"][0] == {
        "broker_order_id": "x0",
        "client_order_id": "by-phone-0",
        "symbol": "AAPL",
        "order_side": "SELL",
        "order_type": "LIMIT",
        "quantity": "25",
        "limit_price": "191.20",
        "time_in_force": "DAY",
        "status": "FILLED",
        "filled_quantity": "25",
        "average_price": "1",
        "accepted_at": first["data"][0]["accepted_at"],
    }
    rest = (await api.client.get(url, headers=headers, params={"next_cursor": first["next_cursor"]})).json()
    assert [order["broker_order_id"] for page in (first, rest) for order in page["data"]] == ["x0", "x1", "x2"]
    assert rest["next_cursor"] is None
    intents = f"/v1/accounts/{harness.account.account_id}/intents"
    other_list = await api.client.get(intents, headers=headers, params={"next_cursor": first["next_cursor"]})
    problem(other_list, 400, "invalid_cursor")


async def test_no_organization_reads_the_orders_of_another_s_account(api: RestApi, harness: Harness) -> None:
    other_organization: Tenant = await a_tenant(harness.pool)
    url = f"/v1/accounts/{harness.account.account_id}/external-orders"
    problem(await api.client.get(url, headers={"x-api-key": other_organization.key}), 404, "not_found")


async def test_what_may_be_the_order_in_doubt_is_shown_with_the_evidence(api: RestApi, harness: Harness) -> None:
    harness.broker.script.append(Unknown("no answer"))
    intent = await harness.accept(a_limit_create())
    await harness.work()
    other_organization = replace(a_report(ReportStatus.WORKING), client_order_id=None)
    harness.broker.book["x"] = described(other_organization, "x1")
    await harness.reconcile(look_up=LookUp.BROKER_ID)
    shown = (await api.read(harness.tenant, f"/{intent}")).json()
    assert shown["execution"]["unknown"]["candidates"] == ["x1"]


async def test_an_operator_sees_which_account_stopped_and_lets_it_go_on(
    api: RestApi, harness: Harness, database: str
) -> None:
    operator, account_id = CommandLine(database), str(harness.account.account_id)
    headers, url = {"x-api-key": harness.tenant.key}, f"/v1/accounts/{harness.account.account_id}"
    assert "is not halted" in await operator.refused("accounts", "resume", account_id, "--because", "x")
    name = client_order_id(ActionId(new_id()))
    harness.broker.book[name] = described(a_report(ReportStatus.WORKING, client_order_id=name), "x9")
    await harness.reconcile()
    shown = (await api.client.get(url, headers=headers)).json()
    assert (shown["session_status"], shown["halt_code"]) == ("HALTED", "ORDERS_EXCEED_DOORS")
    assert "x9" in shown["halt_detail"]
    assert (await api.submit(harness.tenant, create_body())).status_code == 202
    assert await harness.work() == []
    listed = json.loads(await operator.say("accounts", "list", "--halted", "--json"))["accounts"]
    assert [(row["account_id"], row["halt_code"]) for row in listed] == [(account_id, "ORDERS_EXCEED_DOORS")]
    assert "There is no account" in await operator.refused("accounts", "resume", str(new_id()), "--because", "x")
    resumed = await operator.change("accounts", "resume", account_id, "--because", "entered by the desk")
    assert resumed["halt_code"] is None
    shown = (await api.client.get(url, headers=headers)).json()
    assert (shown["session_status"], "halt_code" in shown) == ("CONNECTING", False)
    assert len(await harness.work()) == 1
    assert json.loads(await operator.say("accounts", "list", "--halted", "--json"))["accounts"] == []
