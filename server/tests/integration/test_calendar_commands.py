"""The operator's commands on market calendars: a day is closed, given other hours, shown and reset."""

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.environment.command_line import CommandLine

WHY = ("--reason", "a storm", "--as", "olga")


@pytest.fixture
def operator(database: str) -> CommandLine:
    return CommandLine(database)


async def test_a_day_is_closed_opened_otherwise_and_reset(operator: CommandLine, pool: Pool) -> None:
    day = ("ARCX", "2027-03-10")
    planned = (await operator.read("calendars", "show", "ARCX", "--date", day[1]))["sessions"]
    assert [row["session"] for row in planned] == ["OVERNIGHT", "EXTENDED", "REGULAR"]
    assert await operator.say("calendars", "close", *day, *WHY) == "ARCX is closed on 2027-03-10.\n"
    closed = (await operator.read("calendars", "show", "ARCX", "--date", day[1]))["sessions"]
    assert {(row["opens_at"], row["changed"]) for row in closed} == {(None, "a storm")}
    await operator.say("calendars", "open", *day, "10:00", "12:30", *WHY)
    opened = (await operator.read("calendars", "show", "ARCX", "--date", day[1]))["sessions"]
    assert [row["opens_at"] for row in opened if row["session"] == "REGULAR"] == ["2027-03-10T15:00:00+00:00"]
    listed = (await operator.read("calendars", "list"))["calendars"]
    assert {row["calendar"]: row["changed_days"] for row in listed}["ARCX"] == 1
    await operator.say("calendars", "reset", *day, "--as", "olga")
    assert (await operator.read("calendars", "show", "ARCX", "--date", day[1]))["sessions"] == planned
    # Who did what stays.
    kept = await pool.fetch(
        "select is_reset, reason, principal_id from openbell.calendar_overrides where calendar = 'ARCX'"
    )
    assert [tuple(row) for row in kept] == [
        *[(False, "a storm", "olga")] * 4,
        *[(True, "reset", "olga")] * 3,
    ]


async def test_hours_over_midnight_began_the_evening_before(operator: CommandLine) -> None:
    day = ("CME_EQUITY", "2027-03-10")
    said = await operator.say("calendars", "open", *day, "18:00", "16:00", *WHY)
    assert "from 2027-03-09 18:00 to 2027-03-10 16:00" in said
    await operator.say("calendars", "reset", *day, "--as", "olga")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "XMOON"), "no calendar called XMOON"),
        (("close", "CRYPTO", "2027-03-10", *WHY), "never closes"),
        (("close", "XNYS", "tomorrow", *WHY), "such as 2026-11-27"),
        (("open", "XNYS", "2027-03-10", "9:30", "16:00", *WHY), "such as 09:30"),
        (("open", "XNYS", "2027-03-10", "09:30", "16:00", "--session", "any", *WHY), "Choose the session"),
        (("reset", "XNYS", "2027-03-11"), "has no changed hours"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_sentence(
    operator: CommandLine, arguments: tuple[str, ...], said: str
) -> None:
    assert said in await operator.refused("calendars", *arguments)
