"""Loads the table of market sessions once per process."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import cache
from importlib import resources
from typing import Any, Final
from zoneinfo import ZoneInfo

from openbell_server.domain.markets.calendars import Hours, Market, MarketCalendars, Session
from openbell_server.domain.time_zones import zone_of

# Always open, so it is not in the table.
ALWAYS_OPEN: Final = "CRYPTO"
_DAY, _MINUTE = 86_400, 60


@cache
def load_calendars() -> MarketCalendars:
    """Every market whose time zone is known on this machine; a missing market counts as closed."""
    table = json.loads(resources.files("openbell_server.adapters.calendars").joinpath("sessions.json").read_text())
    markets = {}
    for name, facts in table["calendars"].items():
        same = table["calendars"][facts["same_as"]] if "same_as" in facts else facts
        zone = zone_of(same["zone"])
        if zone is not None:
            markets[name] = _market(name, zone, same, table["generated_at"])
    always = Market(
        name=ALWAYS_OPEN, zone=ZoneInfo("UTC"), valid_from=date.min, valid_until=None, version="always open", hours={}
    )
    return MarketCalendars({**markets, ALWAYS_OPEN: always})


def _market(name: str, zone: ZoneInfo, facts: dict[str, Any], generated_at: str) -> Market:
    return Market(
        name=name,
        zone=zone,
        valid_from=date.fromisoformat(facts["valid_from"]),
        valid_until=date.fromisoformat(facts["valid_until"]),
        version=f"{facts['source']}, {generated_at}",
        hours={Session(kind): _hours(runs, zone) for kind, runs in facts["sessions"].items()},
    )


def _hours(runs: Sequence[Sequence[int]], zone: ZoneInfo) -> tuple[Hours, ...]:
    rows = []
    for opens, closes, *days in runs:
        for day in days:
            opened = day * _DAY + opens * _MINUTE
            trade_date = datetime.fromtimestamp(day * _DAY, UTC).date()
            session_date = datetime.fromtimestamp(opened, zone).date()
            rows.append(Hours(opened, day * _DAY + closes * _MINUTE, trade_date, session_date))
    return tuple(sorted(rows))
