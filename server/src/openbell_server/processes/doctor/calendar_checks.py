"""How far market calendars are known."""

from datetime import UTC, datetime
from typing import Final

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.domain.market_calendars import CALENDARS
from openbell_server.processes.calendar_ends import ending_calendars
from openbell_server.processes.doctor.findings import Check, Patient, Said, fine, problem, warning


async def _ends(_: Patient) -> Said:
    calendars = load_calendars()
    now = datetime.now(UTC)
    ending = ending_calendars(calendars, now)
    install = "Install a newer version of Openbell, which knows more, or write the table anew with the tool in tools/."
    unknown = sorted({*CALENDARS} - set(calendars.markets))
    ended = unknown + [name for name, days in ending.items() if days < 0]
    if ended:
        return problem(f"Not known any more: {', '.join(ended)}. Rules that name them refuse live orders.", install)
    if ending:
        return warning(f"Known for {min(ending.values())} days more only: {', '.join(ending)}.", install)
    return fine(f"Market calendars are known for {min(calendars.days_left(now.date()).values())} days more.")


CHECKS: Final = (Check("work", "calendars", _ends, frozenset({"api", "executor"})),)
