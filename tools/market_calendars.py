"""Write the table of market sessions anew. Run by hand, once a year or when a market changes its hours.

    python3.11 -m venv /tmp/calendars
    /tmp/calendars/bin/pip install exchange_calendars==4.13.2 pandas_market_calendars==5.5.0
    /tmp/calendars/bin/python tools/market_calendars.py

Nothing at run time needs these libraries, so no requirements name them. The table is checked by
server/tests/unit/adapters/test_market_table.py.
"""

import json
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import exchange_calendars
import pandas_market_calendars
from pandas import isna

TABLE = Path(__file__).parents[1] / "server/src/openbell_server/adapters/calendars/sessions.json"
FIRST = date(2025, 1, 1)
TODAY = datetime.now(UTC).date()
# The end of the month in two years.
UNTIL = (TODAY.replace(day=1, year=TODAY.year + 2) + timedelta(days=31)).replace(day=1) - timedelta(1)
# So that the last days of the table know when a market opens next.
BEYOND = timedelta(days=10)
EXCHANGES = ("XNYS", "XLON", "XETR", "XPAR", "XTSE", "XHKG", "XTKS", "XASX")
SAME = {"XNAS": "XNYS", "ARCX": "XNYS"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

# The trade date, and when it opens and closes.
Row = tuple[date, datetime, datetime]


def main() -> None:
    calendars: dict[str, dict[str, object]] = {name: exchange(name) for name in EXCHANGES}
    calendars["CME_EQUITY"] = cme_equity()
    calendars |= {name: {"same_as": other} for name, other in SAME.items()}
    table = {"generated_at": TODAY.isoformat(), "calendars": calendars}
    TABLE.write_text(spread(json.dumps(table, separators=(",", ":"))))
    print(f"{TABLE.name}: {TABLE.stat().st_size} bytes, until {UNTIL}")


def exchange(name: str) -> dict[str, object]:
    bound = exchange_calendars.get_calendar(name).bound_max()
    last = min(UNTIL + BEYOND, UNTIL + BEYOND if bound is None else bound.date())
    calendar = exchange_calendars.get_calendar(name, start=FIRST, end=last)
    regular = []
    for session, opens, break_start, break_end, closes in calendar.schedule.itertuples():
        parts = [(opens, closes)] if isna(break_start) else [(opens, break_start), (break_end, closes)]
        regular += [(session.date(), start.to_pydatetime(), end.to_pydatetime()) for start, end in parts]
    sessions = {"REGULAR": regular}
    source = f"exchange_calendars {exchange_calendars.__version__}"
    if name == "XNYS":
        sessions |= beyond_regular(regular, last)
        source += f", pandas_market_calendars {pandas_market_calendars.__version__}"
    return described(str(calendar.tz), min(UNTIL, last), source, sessions)


def beyond_regular(regular: list[Row], last: date) -> dict[str, list[Row]]:
    """Before and after regular hours, and the night before each session: a full holiday has no such night."""
    market = pandas_market_calendars.get_calendar("NYSE")
    rows = list(market.schedule(FIRST, last, market_times="all").itertuples())
    both = [(row.Index.date(), row.market_open.to_pydatetime(), row.market_close.to_pydatetime()) for row in rows]
    assert both == regular, "the libraries differ on regular hours"
    extended = [(row.Index.date(), row.pre.to_pydatetime(), row.post.to_pydatetime()) for row in rows]
    overnight = []
    for day, opens, _ in extended:
        evening = datetime.combine(day - timedelta(days=1), time(20), market.tz)
        overnight.append((day, evening.astimezone(UTC), opens))
    return {"EXTENDED": extended, "OVERNIGHT": overnight}


def cme_equity() -> dict[str, object]:
    market = pandas_market_calendars.get_calendar("CME_Equity")
    regular = []
    for row in market.schedule(FIRST, UNTIL + BEYOND, market_times="all").itertuples():
        # The break of fifteen minutes ended in 2021; the hour from 16:00 is between two sessions.
        assert row.break_end <= row.break_start
        regular.append((row.Index.date(), row.market_open.to_pydatetime(), row.market_close.to_pydatetime()))
    source = f"pandas_market_calendars {pandas_market_calendars.__version__}"
    return described(str(market.tz), UNTIL, source, {"REGULAR": regular})


def described(zone: str, until: date, source: str, sessions: dict[str, list[Row]]) -> dict[str, object]:
    return {
        "zone": zone,
        "source": source,
        "valid_from": FIRST.isoformat(),
        "valid_until": until.isoformat(),
        # Runs of equal hours: minutes from midnight UTC of the trade date, then the trade dates as days since 1970.
        "sessions": {kind: runs(rows) for kind, rows in sessions.items()},
    }


def runs(rows: list[Row]) -> list[list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for day, opens, closes in rows:
        midnight = datetime.combine(day, time(), UTC)
        assert not (opens - midnight) % MINUTE
        assert not (closes - midnight) % MINUTE
        found.setdefault(((opens - midnight) // MINUTE, (closes - midnight) // MINUTE), []).append(
            (midnight - EPOCH).days
        )
    return [[*hours, *days] for hours, days in sorted(found.items())]


def spread(text: str) -> str:
    """One run a line, and a line of a bearable length: so a change of it can be read."""
    lines = text.replace("],[", "],\n[").replace(":[[", ":[\n[").replace('"},"', '"},\n"').split("\n")
    broken: list[str] = []
    for line in lines:
        words = line.split(",")
        groups = [",".join(words[start : start + 20]) for start in range(0, len(words), 20)]
        broken.append(",\n".join(groups) if len(line) > 120 else line)
    return "\n".join(broken) + "\n"


if __name__ == "__main__":
    main()
