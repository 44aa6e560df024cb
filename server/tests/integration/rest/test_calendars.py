"""The routes of market calendars, with what operators changed."""

from datetime import UTC, date, datetime, timedelta

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.calendars import PostgresCalendarOperators
from openbell_server.domain.markets.calendars import CALENDARS, Session, SessionChange
from support.builders.tenant import Tenant
from support.rest.rest_api import RestApi, problem

CLOSED = date(2027, 3, 10)
SHORT = date(2027, 3, 11)


async def get(api: RestApi, tenant: Tenant, path: str, **days: str) -> httpx.Response:
    return await api.client.get(f"/v1/calendars{path}", params=days, headers={"x-api-key": tenant.key})


async def sessions(api: RestApi, tenant: Tenant, calendar: str, first: date, last: date) -> list[tuple[str, str, str]]:
    days = {"since": first.isoformat(), "until": (last + timedelta(days=1)).isoformat()}
    data = (await get(api, tenant, f"/{calendar}/sessions", **days)).raise_for_status().json()["data"]
    return [(row["session"], row["opens_at"], row["closes_at"]) for row in data]


async def test_every_calendar_is_listed_with_how_far_it_is_known(api: RestApi, tenant: Tenant) -> None:
    data = (await get(api, tenant, "")).raise_for_status().json()["data"]
    assert {row["calendar"] for row in data} == set(CALENDARS)
    by_name = {row["calendar"]: row for row in data}
    assert by_name["XNYS"]["sessions"] == ["REGULAR", "EXTENDED", "OVERNIGHT"]
    assert by_name["XNYS"]["next_open_at"] is not None
    assert (by_name["CRYPTO"]["open_now"], by_name["CRYPTO"].get("valid_until")) == (True, None)


async def test_sessions_of_some_days_are_as_the_table_has_them(api: RestApi, tenant: Tenant) -> None:
    assert await sessions(api, tenant, "XNYS", date(2026, 11, 26), date(2026, 11, 27)) == [
        ("OVERNIGHT", "2026-11-27T01:00:00Z", "2026-11-27T09:00:00Z"),
        ("EXTENDED", "2026-11-27T09:00:00Z", "2026-11-27T22:00:00Z"),
        ("REGULAR", "2026-11-27T14:30:00Z", "2026-11-27T18:00:00Z"),
    ]
    week = (await get(api, tenant, "/XNYS/sessions")).raise_for_status().json()
    assert week["timezone"] == "America/New_York"
    assert len(week["data"]) >= 9


@pytest.mark.parametrize(
    ("path", "days", "status"),
    [
        ("/XMOON/sessions", {}, 404),
        ("/xnys/sessions", {}, 404),
        ("/XNYS/sessions", {"since": "tomorrow"}, 400),
        ("/XNYS/sessions", {"since": "20261127"}, 400),
        ("/XNYS/sessions", {"since": "2024-01-01"}, 400),
        ("/XNYS/sessions", {"since": "2099-01-01"}, 400),
        ("/XNYS/sessions", {"since": "2026-11-27", "until": "2026-11-26"}, 400),
        ("/XNYS/sessions", {"since": "2026-01-01", "until": "2027-01-03"}, 400),
        ("/CRYPTO/sessions", {"since": "9999-12-31"}, 400),
        ("/XNYS/sessions", {"day": "2026-11-27"}, 400),
    ],
)
async def test_what_is_not_known_is_said(
    api: RestApi, tenant: Tenant, path: str, days: dict[str, str], status: int
) -> None:
    problem(await get(api, tenant, path, **days), status, "not_found" if status == 404 else "invalid_parameter")


async def test_a_change_by_an_operator_shows_at_once_begins_every_epoch_and_can_be_taken_back(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    epoch = "select control_epoch from openbell.organizations where organization_id = $1"
    before = await pool.fetchval(epoch, tenant.account.organization_id)
    planned = await sessions(api, tenant, "XNYS", CLOSED, SHORT)
    short = (datetime(2027, 3, 11, 15, tzinfo=UTC), datetime(2027, 3, 11, 16, tzinfo=UTC))
    operators = PostgresCalendarOperators(pool, "olga")
    days = [(CLOSED, kind, None) for kind in Session if kind is not Session.ANY] + [(SHORT, Session.REGULAR, short)]
    await operators.change(
        [
            SessionChange(
                calendar="XNYS",
                trade_date=day,
                session=kind,
                opens_at=hours and hours[0],
                closes_at=hours and hours[1],
                reason="snow",
            )
            for day, kind, hours in days
        ]
    )
    assert await sessions(api, tenant, "XNYS", CLOSED, CLOSED) == []
    assert ("REGULAR", "2027-03-11T15:00:00Z", "2027-03-11T16:00:00Z") in await sessions(
        api, tenant, "XNYS", SHORT, SHORT
    )
    assert await sessions(api, tenant, "XNAS", CLOSED, SHORT) == planned
    assert await pool.fetchval(epoch, tenant.account.organization_id) == before + 1
    assert await operators.reset("XNYS", CLOSED, "no snow") == 3
    assert await operators.reset("XNYS", SHORT, "no snow") == 1
    assert await operators.reset("XNYS", SHORT, "no snow") == 0
    assert await sessions(api, tenant, "XNYS", CLOSED, SHORT) == planned
