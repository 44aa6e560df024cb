"""Limits on time: trading windows, market sessions, and the age of a command when it is sent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Final

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls import symbol_controls
from openbell_server.domain.controls.facts import CommandFacts, Facts
from openbell_server.domain.controls.findings import Comparison, Finding, Mode, Scope, Verdict
from openbell_server.domain.controls.kind import ControlKind, Unit, found, unavailable
from openbell_server.domain.controls.parameters import Form, Shape, choice, matching, named, some_of, whole
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.controls.strictness import Effect, by_parameter, fewer, incomparable, lower
from openbell_server.domain.controls.symbol_controls import (
    STALE_MILLIS_DEFAULT,
    STALE_MILLIS_MAX,
    Recorded,
    TimeControl,
)
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.calendars import CALENDARS, Market, MarketCalendars, Session, SessionChange
from openbell_server.domain.markets.trading_windows import Day, TradingWindow, in_week_order, next_changes
from openbell_server.domain.orders.order_terms import TimeInForce
from openbell_server.domain.time_zones import DEFAULT_ZONE, TZDATA_VERSION, check_zone

_TIME_PATTERN: Final = "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$"
_TIME: Final = Form(
    shown='"HH:MM:SS"',
    must_be="a time, HH:MM:SS up to 23:59:59",
    schema={"type": "string", "pattern": _TIME_PATTERN},
    read=lambda value, _: time.fromisoformat(matching(value, re.compile(_TIME_PATTERN, re.ASCII))),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSession:
    """Hours of a market in which orders may be sent.

    Outside regular hours an order must opt in: only time in force EXT is sent in an extended or overnight session, and
    only if `session` allows it. Any other order waits for regular hours at its market, so only regular hours count for
    it.
    """

    calendar: str
    session: Session = Session.REGULAR
    # Operators' changes of this calendar when the rules were read.
    changes: tuple[SessionChange, ...] = ()

    @property
    def kinds(self) -> tuple[Session, ...]:
        return self.session.kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxAge:
    """How long a command may have waited when it is sent."""

    max_age_millis: int
    # Limits set by people: where one of them applies, this default does not.
    yields_to: tuple[Rule, ...] = ()

    def yields(self, symbol: Symbol, api_key_id: str | None, now: datetime) -> bool:
        return any(each.applies(symbol, api_key_id, now) for each in self.yields_to)


@dataclass(frozen=True, slots=True)
class Deadline:
    """Every command with a deadline must meet it."""


def rules_of_symbol(
    account_id: AccountId, account_zone: str, symbol: Symbol, recorded: Recorded[TimeControl]
) -> list[Rule]:
    """The time control of a symbol as rules; calendar changes are added by `completed`."""
    control = recorded.control
    parameters: dict[str, object] = {}
    window = control.window(account_zone)
    if window.restricts:
        parameters[symbol_controls.OUTSIDE_TRADING_WINDOW] = window
    if control.calendar is not None:
        session = control.session or Session.REGULAR
        parameters[symbol_controls.MARKET_CLOSED] = MarketSession(calendar=control.calendar, session=session)
    if control.stale_order_millis is not None:
        parameters[symbol_controls.STALE_ORDER] = MaxAge(max_age_millis=control.stale_order_millis)
    return [
        Rule(
            code=code,
            scope=Scope.SYMBOL,
            subject=f"{account_id} {symbol}",
            symbol=symbol,
            api_key_id=None,
            parameters=each,
            mode=Mode.HARD,
            on_missing=None,
            version=recorded.version,
        )
        for code, each in parameters.items()
    ]


def rules_by_default(environment: Environment, rules: Sequence[Rule]) -> list[Rule]:
    """Default rules: deadlines, and the maximum age of a command on a live account."""
    parameters: list[object] = [Deadline()]
    limit = STALE_MILLIS_DEFAULT.get(environment)
    if limit is not None:
        own = tuple(rule for rule in rules if rule.code == symbol_controls.STALE_ORDER and rule.mode is Mode.HARD)
        parameters.append(MaxAge(max_age_millis=limit, yields_to=own))
    return [
        Rule(
            code=symbol_controls.STALE_ORDER,
            scope=Scope.PLATFORM,
            subject="",
            symbol=None,
            api_key_id=None,
            parameters=each,
            mode=Mode.HARD,
            on_missing=None,
            version=None,
        )
        for each in parameters
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTimes:
    open_now: bool
    next_open_at: datetime | None
    next_close_at: datetime | None


def open_times(window: TradingWindow, hours: MarketSession | None, market: Market | None, now: datetime) -> OpenTimes:
    """The times at which both the window and, if a calendar is named, the market session are open."""
    if hours is None:
        opens, closes = window.next_changes(now) if window.restricts else (None, None)
        return OpenTimes(open_now=window.opened_on(now) is not None, next_open_at=opens, next_close_at=closes)
    if market is None:
        return OpenTimes(open_now=False, next_open_at=None, next_close_at=None)
    changed, session = market.changed(hours.changes), hours.session

    def is_open(at: datetime) -> bool:
        in_session = changed.covers(at) and changed.open_at(at, session) is not None
        return in_session and window.opened_on(at) is not None

    edges = sorted({*window.edges(now), *changed.edges(now, session)})
    opens, closes = next_changes(is_open, edges, now)
    return OpenTimes(open_now=is_open(now), next_open_at=opens, next_close_at=closes)


def why_closed(rules: Sequence[Rule], calendars: MarketCalendars, now: datetime) -> Finding | None:
    """The finding of the rule that has closed trading in a symbol, for any type of order; None while it is open.

    An unknown zone or market, or an outdated calendar, closes nothing: orders stay.
    """
    for rule in rules:
        parameters, finding = rule.parameters, None
        if isinstance(parameters, TradingWindow) and parameters.observed(now) is not None:
            finding = _window_finding(rule, parameters, now)
        elif isinstance(parameters, MarketSession):
            market = calendars.find(parameters.calendar)
            if market is not None and market.covers(now):
                finding = _session_finding(rule, market.changed(parameters.changes), parameters.session, now)
        if finding is not None and finding.refuses:
            return replace(finding, verdict=Verdict.EXCEEDED, would_pass=None)
    return None


def _check_window(window: TradingWindow) -> None:
    if window.trading_end is not None and window.trading_end == window.start:
        raise InvalidCommand("/parameters/trading_end", "must differ from trading_start, midnight if it is not set")


def _zone(value: object, pointer: str) -> str:
    zone = value if isinstance(value, str) else ""
    check_zone(zone, pointer)
    return zone


def _judge_window(rule: Rule, _: CommandFacts, facts: Facts) -> Finding:
    assert isinstance(rule.parameters, TradingWindow)
    return _window_finding(rule, rule.parameters, facts.now)


def _window_finding(rule: Rule, window: TradingWindow, now: datetime) -> Finding:
    opened_on = window.opened_on(now)
    observed = window.observed(now)
    inputs = {"window": str(window), "timezone": window.timezone or DEFAULT_ZONE, "tzdata": TZDATA_VERSION}
    hint = "once this server knows the zone of the window"
    if opened_on is not None:
        inputs["session_date"] = opened_on.isoformat()
    elif observed is not None:
        opens = window.next_changes(now)[0]
        hint = "in the window, which does not open in the next two weeks"
        if opens is not None:
            inputs["next_open_at"] = utc_text(opens)
            hint = f"from {utc_text(opens)} on, when the window opens"
    return found(
        rule,
        Comparison.WITHIN,
        window.spans(),
        # Sorts after every time of day: an unknown zone opens no window.
        "zone unknown" if observed is None else observed,
        passes=opened_on is not None,
        would_pass=hint,
        inputs=inputs,
    )


def compare_windows(before: TradingWindow, after: TradingWindow) -> tuple[Effect, tuple[str, ...]]:
    """A window is stricter if it is open only when the one before was; those of two zones cannot be compared."""
    if before == after or not (before.restricts or after.restricts):
        return Effect.NEITHER, ()
    within = not before.restricts or (after.restricts and before.timezone == after.timezone and before.covers(after))
    if not within:
        return Effect.LOOSEN, ("window",)
    return Effect.NEITHER if after.restricts and after.covers(before) else Effect.TIGHTEN, ()


def _judge_market(rule: Rule, command: CommandFacts, facts: Facts) -> Finding:
    parameters = rule.parameters
    assert isinstance(parameters, MarketSession)
    known = None if facts.calendars is None else facts.calendars.find(parameters.calendar)
    observed = utc_text(facts.now)
    if known is None:
        # An unknown calendar is never open, also on paper, where passing would hide a wrong configuration.
        would_pass = f"once this server knows the sessions of {parameters.calendar}"
        return found(rule, Comparison.WITHIN, [], observed, passes=False, would_pass=would_pass)
    market = known.changed(parameters.changes)
    if not market.covers(facts.now):
        missing = f"sessions of {market.name} beyond {market.valid_from} to {market.valid_until}"
        return unavailable(rule, command, Comparison.WITHIN, [], missing)
    opted_in = command.terms.time_in_force is TimeInForce.EXT
    session = parameters.session if opted_in else session_without_opt_in(parameters.session)
    if session is None:
        would_pass = f"with time in force EXT, in an {parameters.session} session of {market.name}"
        return found(
            rule, Comparison.WITHIN, [], observed, passes=False, would_pass=would_pass, inputs={"calendar": market.name}
        )
    return _session_finding(rule, market, session, facts.now)


def session_without_opt_in(session: Session) -> Session | None:
    """The part of a session for an order without opt-in to extended hours; None if there is none."""
    return Session.REGULAR if Session.REGULAR in session.kinds else None


def _session_finding(rule: Rule, market: Market, session: Session, now: datetime) -> Finding:
    hours = market.open_at(now, session)
    inputs = {"calendar": market.name, "session": str(session), "calendar_version": market.version}
    would_pass = f"in a session of {market.name}, and none is known to come"
    if hours is not None:
        inputs |= {"session_date": hours.session_date.isoformat(), "trade_date": hours.trade_date.isoformat()}
        if hours.reason is not None:
            inputs["changed_by_operator"] = hours.reason
    else:
        opens = market.next_changes(now, session)[0]
        if opens is not None:
            inputs["next_open_at"] = utc_text(opens)
            would_pass = f"from {utc_text(opens)} on, when {market.name} opens ({session.lower()})"
    spans = [
        [utc_text(datetime.fromtimestamp(row.opens, UTC)), utc_text(datetime.fromtimestamp(row.closes, UTC))]
        for row in sorted(market.around(now, session))
    ]
    return found(
        rule,
        Comparison.WITHIN,
        spans,
        utc_text(now),
        passes=hours is not None,
        would_pass=would_pass,
        inputs=inputs,
    )


def _judge_age(rule: Rule, command: CommandFacts, facts: Facts) -> Finding | None:
    parameters = rule.parameters
    if isinstance(parameters, Deadline):
        return _judge_deadline(rule, command, facts)
    assert isinstance(parameters, MaxAge)
    if command.age is None or parameters.yields(command.symbol, command.api_key_id, facts.now):
        return None
    limit = parameters.max_age_millis
    # Rounded up, so that an excess of less than a millisecond shows above the limit.
    observed = -(-command.age // timedelta(milliseconds=1))
    return found(
        rule,
        Comparison.AT_MOST,
        limit,
        observed,
        passes=observed <= limit,
        would_pass=f"within {limit} ms of being accepted",
    )


def _judge_deadline(rule: Rule, command: CommandFacts, facts: Facts) -> Finding | None:
    if command.deadline is None:
        return None
    return found(
        rule,
        Comparison.AT_MOST,
        utc_text(command.deadline),
        utc_text(facts.now),
        passes=facts.now <= command.deadline,
        would_pass=f"with a deadline of {utc_text(facts.now)} or later",
        inputs={"deadline": utc_text(command.deadline)},
    )


def utc_text(instant: datetime) -> str:
    """An instant in the format of receipts: fixed length, so that texts sort by time."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _is_older_than_default(age: MaxAge, environment: Environment) -> bool:
    return age.max_age_millis > STALE_MILLIS_DEFAULT.get(environment, STALE_MILLIS_MAX)


# Both gates check deadlines; only the door checks the age.
STALE_ORDER: Final = ControlKind(
    code=symbol_controls.STALE_ORDER,
    summary="Refuses at the door a command that has waited longer since it was accepted.",
    shape=Shape(MaxAge, {"max_age_millis": whole(1, STALE_MILLIS_MAX)}),
    unit=Unit.MILLIS,
    judge=_judge_age,
    tightens=by_parameter(max_age_millis=lower),
    replaces_default=_is_older_than_default,
)
ZONE: Final = Form(shown='"…"', must_be="a zone", schema={"type": "string", "format": "timezone"}, read=_zone)
OUTSIDE_TRADING_WINDOW: Final = ControlKind(
    code=symbol_controls.OUTSIDE_TRADING_WINDOW,
    summary="Refuses commands outside a window of local time.",
    shape=Shape(
        TradingWindow,
        {
            "trading_start": _TIME,
            "trading_end": _TIME,
            "timezone": ZONE,
            "days": some_of(Day, in_week_order),
        },
        any_of=("trading_start", "trading_end", "days"),
    ),
    check=_check_window,
    judge=_judge_window,
    tightens=compare_windows,
)
MARKET_CLOSED: Final = ControlKind(
    code=symbol_controls.MARKET_CLOSED,
    summary="Refuses commands outside the sessions of a market.",
    shape=Shape(MarketSession, {"calendar": named([*CALENDARS]), "session": choice(Session)}),
    judge=_judge_market,
    tightens=by_parameter(calendar=incomparable, kinds=fewer),
)
