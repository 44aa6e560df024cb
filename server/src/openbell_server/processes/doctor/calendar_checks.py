"""Checks how long the market calendars are valid."""

from datetime import UTC, datetime
from typing import Final

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.domain.markets.calendars import CALENDARS
from openbell_server.processes.calendar_expiry import ending_calendars
from openbell_server.processes.doctor.findings import Check, Result, Target, fine, problem, warning


async def _ends(_: Target) -> Result:
    calendars = load_calendars()
    now = datetime.now(UTC)
    ending = ending_calendars(calendars, now)
    install = "Install a newer version of Openbell, or generate the table again with the tool in tools/."
    unknown = sorted({*CALENDARS} - set(calendars.markets))
    ended = unknown + [name for name, days in ending.items() if days < 0]
    if ended:
        return problem(
            f"Calendars that have ended: {', '.join(ended)}. Rules that use them refuse live orders.", install
        )
    if ending:
        return warning(f"Calendars that end in {min(ending.values())} days: {', '.join(ending)}.", install)
    return fine(f"Market calendars are known for {min(calendars.days_left(now.date()).values())} more days.")


CHECKS: Final = (Check("work", "calendars", _ends, frozenset({"api", "executor"})),)
