"""The brokers over REST: who may see them, what is told of them, and where accounts may be opened."""

from dataclasses import replace
from typing import Any

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment, PaperProfile, broker_and_profile, broker_with_profile
from openbell_server.domain.orders.intents import ActionType
from support.builders.tenant import Tenant
from support.identity.bearers import as_service, as_user, as_user_without_organization
from support.rest.managed_accounts import create
from support.rest.rest_api import RestApi, pointers, problem

PATH = "/v1/brokers"


async def test_whoever_is_somebody_sees_every_broker_by_name(api: RestApi, tenant: Tenant) -> None:
    answers = [
        await api.client.get(PATH, headers=headers)
        for headers in (
            {"x-api-key": tenant.key},
            as_user(tenant, "read_only"),
            as_user(tenant, None),
            as_user_without_organization(),
            as_service(),
        )
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    listed = [(broker["name"], broker["profile"]) for broker in answers[0].json()["data"]]
    assert listed == [broker_and_profile(name) for name in sorted(BROKERS)]
    assert len({answer.text for answer in answers}) == 1
    problem(await api.client.get(PATH), 401, "unauthenticated")
    problem(await api.client.get(PATH, params={"limit": 1}, headers=as_service()), 400, "invalid_parameter")


async def test_a_broker_is_told_as_it_is_defined(api: RestApi, tenant: Tenant) -> None:
    told = {
        broker_with_profile(broker["name"], broker["profile"] and PaperProfile(broker["profile"])): broker
        for broker in (await api.client.get(PATH, headers={"x-api-key": tenant.key})).json()["data"]
    }
    for name, definition in BROKERS.items():
        broker, able, form = told[name], definition.capabilities, definition.credentials
        for field in ("environments", "order_types", "times_in_force", "route_strategies"):
            assert set(broker[field]) == getattr(able, field)
            assert len(broker[field]) == len(getattr(able, field))
        for field in (
            *("default_time_in_force", "quantity_decimals", "replace", "in_flight_max", "calls_at_once_max"),
            *("calls_per_second_max", "look_up", "cancels_by_client_id", "repeats_cancels", "enforces_valid_until"),
            "settle_seconds",
        ):
            assert broker[field] == getattr(able, field), field
        assert broker["feed"] == {
            "by_account": able.feeds_by_account,
            "echo_seconds": able.echo_seconds,
            "names_executions": able.names_executions,
            "tells_corrections": able.tells_corrections,
        }
        for command, said in broker["commands"].items():
            kind = ActionType(command)
            assert said == {"id_class": able.id_classes.get(kind, "C"), "settles_by": able.settles_by(kind)}
        assert form is None or broker["credentials"] == {
            "kind": form.kind,
            "required": form.required,
            "fields": [
                {"name": each.name, "title": each.title, "secret": each.secret, "length_max": each.length_max}
                for each in form.fields
            ],
        }
    assert told["paper"]["commands"].keys() == {"CREATE", "REPLACE", "CANCEL"}
    assert {command["id_class"] for command in told["paper-c"]["commands"].values()} == {"C"}
    assert told["paper-w"]["look_up"] == "OPEN_ORDERS"


async def test_a_broker_that_cannot_replace_and_has_no_sign_in_is_told_without_either(
    api: RestApi, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = BROKERS["paper"].capabilities
    monkeypatch.setattr(BROKERS["paper"], "capabilities", replace(able, replace=ReplaceSupport.NONE))
    monkeypatch.setattr(BROKERS["paper"], "credentials", None)
    brokers = (await api.client.get(PATH, headers={"x-api-key": tenant.key})).json()["data"]
    (paper,) = [broker for broker in brokers if (broker["name"], broker["profile"]) == ("paper", "A")]
    assert (paper["replace"], set(paper["commands"]), paper["credentials"]) == ("NONE", {"CREATE", "CANCEL"}, None)


async def test_an_account_is_opened_only_where_its_broker_trades(
    api: RestApi, tenant: Tenant, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    able = replace(BROKERS["paper"].capabilities, environments=frozenset({Environment.PAPER}))
    monkeypatch.setattr(BROKERS["paper"], "capabilities", able)
    before = await pool.fetchval("select count(*) from accounts")
    refusal = problem(await create(api, tenant, environment="live"), 422, "invalid_command")
    assert (pointers(refusal), refusal["detail"]) == (["/environment"], "environment must be paper at paper")
    assert await pool.fetchval("select count(*) from accounts") == before
    assert (await create(api, tenant, environment="paper")).status_code == 201


@pytest.mark.parametrize(("profile", "name"), [(None, "paper"), ("A", "paper"), ("W", "paper-w"), ("C", "paper-c")])
async def test_an_account_of_the_paper_broker_has_a_profile(
    api: RestApi, tenant: Tenant, pool: Pool, profile: str | None, name: str
) -> None:
    fields: Any = {} if profile is None else {"profile": profile}
    opened = await create(api, tenant, **fields)
    assert opened.status_code == 201
    assert (opened.json()["broker"], opened.json()["profile"]) == ("paper", profile or "A")
    assert await pool.fetchval("select broker from accounts where account_id = $1", opened.json()["id"]) == name


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        ({"broker": "alpaca", "profile": "B"}, "/profile", "is only for the broker paper"),
        ({"broker": "paper-b"}, "/broker", "must be paper with the profile B"),
        ({"profile": "D"}, "/profile", "must be one of A, B, C, W"),
        ({"broker": "none"}, "/broker", "must be one of alpaca, paper, tradier"),
    ],
)
async def test_a_broker_or_profile_that_there_is_not_is_refused_with_what_there_is(
    api: RestApi, tenant: Tenant, fields: Any, pointer: str, message: str
) -> None:
    told: Any = problem(await create(api, tenant, **fields), 422, "invalid_command")
    assert [(error["pointer"], error["message"]) for error in told["errors"]] == [(pointer, message)]
