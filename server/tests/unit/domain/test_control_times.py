"""Rules of time: what each says of a command, and that anybody can repeat the comparison from its line."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate
from openbell_server.domain.controls.findings import Comparison, Finding, Mode, Scope
from openbell_server.domain.controls.kinds.completed import completed
from openbell_server.domain.controls.kinds.times import MaxAge, rules_by_default, rules_of_symbol
from openbell_server.domain.controls.rules import OnMissing, Rule, RuleBook
from openbell_server.domain.controls.symbol_controls import Recorded, TimeControl
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.calendars import Hours, Market, MarketCalendars, Session, SessionChange
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, Terms, TimeInForce

NEW_YORK = ZoneInfo("America/New_York")
AAPL = Symbol("AAPL")
# A Friday with a short session, and the Monday after.
FRIDAY, MONDAY = date(2026, 11, 27), date(2026, 11, 30)


def at(day: date, hour: int, minute: int = 0) -> datetime:
    return datetime.combine(day, time(hour, minute), NEW_YORK).astimezone(UTC)


def hours(day: date, opens: datetime, closes: datetime) -> Hours:
    return Hours(int(opens.timestamp()), int(closes.timestamp()), day, opens.astimezone(NEW_YORK).date())


CALENDARS = MarketCalendars(
    {
        "XNYS": Market(
            name="XNYS",
            zone=NEW_YORK,
            valid_from=date(2026, 11, 1),
            valid_until=date(2026, 12, 1),
            version="made up",
            hours={
                Session.REGULAR: [
                    hours(FRIDAY, at(FRIDAY, 9, 30), at(FRIDAY, 13)),
                    hours(MONDAY, at(MONDAY, 9, 30), at(MONDAY, 16)),
                ],
                Session.EXTENDED: [
                    hours(FRIDAY, at(FRIDAY, 4), at(FRIDAY, 17)),
                    hours(MONDAY, at(MONDAY, 4), at(MONDAY, 20)),
                ],
                Session.OVERNIGHT: [hours(MONDAY, at(date(2026, 11, 29), 20), at(MONDAY, 4))],
            },
        )
    }
)


def asked(**changes: Any) -> CommandFacts:
    time_in_force = changes.pop("time_in_force", TimeInForce.DAY)
    plain: dict[str, Any] = {
        "action_type": ActionType.CREATE,
        "symbol": AAPL,
        "order_side": OrderSide.BUY,
        "order_type": OrderType.MARKET,
        "terms": Terms(quantity=Decimal(1), time_in_force=time_in_force),
        "environment": Environment.LIVE,
    }
    return CommandFacts(**plain | changes)


def rule(code: str, parameters: dict[str, Any], **changes: Any) -> Rule:
    plain: dict[str, Any] = {
        "code": code,
        "scope": Scope.ORGANIZATION,
        "subject": "",
        "symbol": None,
        "api_key_id": None,
        "parameters": CATALOGUE[code].decode(parameters),
        "mode": Mode.HARD,
        "on_missing": None,
        "version": 3,
    }
    return Rule(**plain | changes)


def judged(
    rules: Sequence[Rule],
    command: CommandFacts,
    now: datetime,
    gate: Gate = Gate.ACCEPT,
    calendars: MarketCalendars | None = CALENDARS,
) -> list[Finding]:
    book = RuleBook(organization_epoch=1, account_epoch=1, rules=rules)
    findings = evaluate(book, command, Facts(now=now, calendars=calendars), gate)
    for finding in findings:
        if finding.missing is None:
            assert repeats(finding) is not finding.refuses
    return findings


def repeats(finding: Finding) -> bool:
    """The comparison by texts alone, as somebody with nothing but the receipt makes it."""
    limit: Any = finding.limit
    observed: Any = finding.observed
    if finding.comparison is Comparison.AT_MOST:
        assert type(limit) is type(observed)
        return bool(observed <= limit)
    assert finding.comparison is Comparison.WITHIN
    return any(start <= observed < end for start, end in limit)


def test_a_window_refuses_with_the_spans_the_local_time_and_the_next_opening() -> None:
    window = {"trading_start": "20:00:00", "trading_end": "04:00:00", "timezone": "America/New_York", "days": ["FRI"]}
    (inside,) = judged([rule("OUTSIDE_TRADING_WINDOW", window)], asked(), at(date(2026, 11, 28), 1))
    assert not inside.refuses
    assert inside.limit == [["5T20:00:00", "5T24:00:00"], ["6T00:00:00", "6T04:00:00"]]
    assert inside.observed == "6T01:00:00.000000"
    assert inside.inputs["session_date"] == "2026-11-27"
    (outside,) = judged([rule("OUTSIDE_TRADING_WINDOW", window)], asked(), at(date(2026, 11, 28), 4))
    assert (outside.reason, outside.observed) == ("OUTSIDE_TRADING_WINDOW", "6T04:00:00.000000")
    assert outside.would_pass == "from 2026-12-05T01:00:00.000000Z on, when the window opens"
    assert outside.inputs["next_open_at"] == "2026-12-05T01:00:00.000000Z"


def test_a_window_without_a_zone_is_in_the_zone_of_the_account() -> None:
    morning = rule("OUTSIDE_TRADING_WINDOW", {"trading_start": "09:30:00", "trading_end": "16:00:00"})
    here = completed(morning, "Asia/Tokyo", [])
    now = datetime(2026, 11, 27, 1, tzinfo=UTC)
    assert [finding.refuses for finding in judged([morning, here], asked(), now)] == [True, False]


def test_a_zone_that_is_not_known_here_refuses_on_paper_too() -> None:
    recorded = a_record(TimeControl(trading_start=time(9), timezone="Mars/Olympus"))
    rules = rules_of_symbol(AccountId(UUID(int=1)), "UTC", AAPL, recorded)
    (finding,) = judged(rules, asked(environment=Environment.PAPER), at(FRIDAY, 10))
    assert (finding.refuses, finding.reason) == (True, "OUTSIDE_TRADING_WINDOW")


SESSIONS = [
    ("before the open", "REGULAR", "DAY", at(FRIDAY, 9, 29), False),
    ("at the open", "REGULAR", "DAY", at(FRIDAY, 9, 30), True),
    ("at the early close", "REGULAR", "DAY", at(FRIDAY, 13), False),
    ("before the early close", "REGULAR", "DAY", at(FRIDAY, 13) - timedelta(microseconds=1), True),
    ("after hours without opting in", "EXTENDED", "DAY", at(FRIDAY, 15), False),
    ("after hours", "EXTENDED", "EXT", at(FRIDAY, 15), True),
    ("after hours that are not allowed", "REGULAR", "EXT", at(FRIDAY, 15), False),
    ("after the early end of after hours", "EXTENDED", "EXT", at(FRIDAY, 17), False),
    ("Sunday night", "OVERNIGHT", "EXT", at(date(2026, 11, 29), 23), True),
    ("Sunday night, any session", "ANY", "EXT", at(date(2026, 11, 29), 23), True),
    ("Sunday night without opting in", "ANY", "DAY", at(date(2026, 11, 29), 23), False),
    ("Sunday night without opting in to it", "OVERNIGHT", "DAY", at(date(2026, 11, 29), 23), False),
    ("Sunday night, extended only", "EXTENDED", "EXT", at(date(2026, 11, 29), 23), False),
    ("regular hours, overnight only", "OVERNIGHT", "EXT", at(MONDAY, 10), False),
    ("regular hours, any session", "ANY", "DAY", at(MONDAY, 10), True),
]


@pytest.mark.parametrize(
    ("session", "time_in_force", "now", "passes"), [each[1:] for each in SESSIONS], ids=[each[0] for each in SESSIONS]
)
def test_an_order_is_sent_in_the_hours_that_the_rule_allows_and_the_order_asks_for(
    session: str, time_in_force: str, now: datetime, passes: bool
) -> None:
    closed = rule("MARKET_CLOSED", {"calendar": "XNYS", "session": session})
    (finding,) = judged([closed], asked(time_in_force=TimeInForce(time_in_force)), now)
    assert finding.refuses is not passes


def test_a_closed_market_says_when_it_opens_and_an_open_one_for_which_day_it_trades() -> None:
    any_session = rule("MARKET_CLOSED", {"calendar": "XNYS", "session": "ANY"})
    (shut,) = judged([any_session], asked(), at(FRIDAY, 14))
    assert shut.inputs["next_open_at"] == "2026-11-30T14:30:00.000000Z"
    assert shut.would_pass == "from 2026-11-30T14:30:00.000000Z on, when XNYS opens (regular)"
    (night,) = judged([any_session], asked(time_in_force=TimeInForce.EXT), at(date(2026, 11, 29), 23))
    assert (night.inputs["session_date"], night.inputs["trade_date"]) == ("2026-11-29", "2026-11-30")
    assert night.inputs["calendar_version"] == "made up"


def test_what_operators_say_of_a_day_is_part_of_the_rule() -> None:
    closed = rule("MARKET_CLOSED", {"calendar": "XNYS"})
    changes = [
        SessionChange(calendar=calendar, trade_date=day, session=Session.REGULAR, opens_at=o, closes_at=c, reason="why")
        for calendar, day, o, c in (
            ("XNYS", FRIDAY, None, None),
            ("XNYS", MONDAY, at(MONDAY, 11), at(MONDAY, 12)),
            ("XLON", MONDAY, None, None),
        )
    ]
    changed = completed(closed, "UTC", changes)
    at_times = [at(FRIDAY, 10), at(MONDAY, 10), at(MONDAY, 11), at(MONDAY, 12)]
    assert [judged([changed], asked(), now)[0].refuses for now in at_times] == [True, True, False, True]
    (finding,) = judged([changed], asked(), at(MONDAY, 11))
    assert finding.inputs["changed_by_operator"] == "why"
    assert [judged([closed], asked(), now)[0].refuses for now in at_times] == [False, False, False, False]


def test_days_after_the_end_of_the_table_are_a_missing_input() -> None:
    closed = rule("MARKET_CLOSED", {"calendar": "XNYS"})
    after = at(date(2026, 12, 2), 10)
    (live,) = judged([closed], asked(), after)
    assert (live.refuses, live.reason) == (True, "CONTROL_INPUT_UNAVAILABLE")
    assert not judged([closed], asked(environment=Environment.PAPER), after)[0].refuses
    allowing = rule("MARKET_CLOSED", {"calendar": "XNYS"}, on_missing=OnMissing.ALLOW)
    assert not judged([allowing], asked(), after)[0].refuses


@pytest.mark.parametrize("calendars", [None, MarketCalendars({})], ids=["no table", "no such calendar"])
def test_a_calendar_that_is_not_known_here_is_closed_on_paper_too(calendars: MarketCalendars | None) -> None:
    closed = rule("MARKET_CLOSED", {"calendar": "XLON"}, on_missing=OnMissing.ALLOW)
    (finding,) = judged([closed], asked(environment=Environment.PAPER), at(FRIDAY, 10), calendars=calendars)
    assert (finding.refuses, finding.reason) == (True, "MARKET_CLOSED")


def test_an_age_is_judged_at_the_door_only_and_the_limit_is_inside() -> None:
    limit = rule("STALE_ORDER", {"max_age_millis": 500})
    assert judged([limit], asked(), at(FRIDAY, 10)) == []
    for age, observed in ((timedelta(milliseconds=500), 500), (timedelta(microseconds=500_001), 501)):
        (finding,) = judged([limit], asked(age=age), at(FRIDAY, 10), Gate.DOOR)
        assert (finding.limit, finding.observed, finding.refuses) == (500, observed, observed > 500)


def test_a_deadline_is_judged_at_both_gates_and_is_inside() -> None:
    rules = rules_by_default(Environment.PAPER, [])
    now = at(FRIDAY, 10)
    for gate in Gate:
        (kept,) = judged(rules, asked(deadline=now), now, gate)
        (missed,) = judged(rules, asked(deadline=now - timedelta(microseconds=1)), now, gate)
        assert (kept.refuses, missed.refuses, missed.reason) == (False, True, "STALE_ORDER")
        assert judged(rules, asked(), now, gate) == []


def test_a_live_account_has_a_minute_unless_a_rule_that_speaks_says_otherwise() -> None:
    old = timedelta(seconds=61)
    now = at(FRIDAY, 10)
    longer = rule("STALE_ORDER", {"max_age_millis": 120_000}, symbol=Symbol("MSFT"))
    rules = [longer, *rules_by_default(Environment.LIVE, [longer])]
    (default,) = judged(rules, asked(age=old), now, Gate.DOOR)
    assert (default.scope, default.control_version, default.refuses) == (Scope.PLATFORM, None, True)
    (own,) = judged(rules, asked(age=old, symbol=Symbol("MSFT")), now, Gate.DOOR)
    assert (own.limit, own.refuses) == (120_000, False)
    assert not any(isinstance(each.parameters, MaxAge) for each in rules_by_default(Environment.PAPER, []))
    watched = rule("STALE_ORDER", {"max_age_millis": 120_000}, mode=Mode.SHADOW)
    both = judged([watched, *rules_by_default(Environment.LIVE, [watched])], asked(age=old), now, Gate.DOOR)
    assert {finding.scope: finding.refuses for finding in both} == {Scope.ORGANIZATION: False, Scope.PLATFORM: True}


def a_record(control: TimeControl) -> Recorded[TimeControl]:
    return Recorded(control=control, version=7, created_at=at(FRIDAY, 1), updated_at=at(FRIDAY, 1))


def test_the_time_control_of_a_symbol_is_up_to_three_rules() -> None:
    control = TimeControl(trading_start=time(9), calendar="XNYS", session=Session.EXTENDED, stale_order_millis=5)
    rules = rules_of_symbol(AccountId(UUID(int=1)), "Europe/Berlin", AAPL, a_record(control))
    assert [each.code for each in rules] == ["OUTSIDE_TRADING_WINDOW", "MARKET_CLOSED", "STALE_ORDER"]
    assert {(each.scope, each.symbol, each.version, each.subject) for each in rules} == {
        (Scope.SYMBOL, AAPL, 7, f"{UUID(int=1)} AAPL")
    }
    assert "Europe/Berlin" in str(rules[0].parameters)
    assert rules_of_symbol(AccountId(UUID(int=1)), "UTC", AAPL, a_record(TimeControl())) == []


WRONG = [
    ("OUTSIDE_TRADING_WINDOW", {}),
    ("OUTSIDE_TRADING_WINDOW", {"timezone": "UTC"}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "9:30"}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "24:00:00"}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "09:30:60"}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": None}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "09:30:00", "trading_end": "09:30:00"}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_end": "00:00:00"}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "09:30:00", "timezone": "Mars/Olympus"}),
    ("OUTSIDE_TRADING_WINDOW", {"trading_start": "09:30:00", "timezone": None}),
    ("OUTSIDE_TRADING_WINDOW", {"days": []}),
    ("OUTSIDE_TRADING_WINDOW", {"days": ["monday"]}),
    ("OUTSIDE_TRADING_WINDOW", {"days": "MON"}),
    ("OUTSIDE_TRADING_WINDOW", {"days": [["MON"]]}),
    ("MARKET_CLOSED", {}),
    ("MARKET_CLOSED", {"calendar": "XMOON"}),
    ("MARKET_CLOSED", {"calendar": ["XNYS"]}),
    ("MARKET_CLOSED", {"calendar": "XNYS", "session": "lunch"}),
    ("MARKET_CLOSED", {"calendar": "XNYS", "session": ["any"]}),
    ("MARKET_CLOSED", {"calendar": "XNYS", "changes": []}),
    ("STALE_ORDER", {}),
    ("STALE_ORDER", {"max_age_millis": 0}),
    ("STALE_ORDER", {"max_age_millis": 86_400_001}),
    ("STALE_ORDER", {"max_age_millis": True}),
    ("STALE_ORDER", {"max_age_millis": "5"}),
]


@pytest.mark.parametrize(("code", "parameters"), WRONG, ids=[f"{n} {each[0]}" for n, each in enumerate(WRONG)])
def test_parameters_that_nobody_could_mean_are_refused(code: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidCommand):
        CATALOGUE[code].decode(parameters)
