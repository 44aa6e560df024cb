"""What a key can do at worst, by the rules in force of every scope: an upper bound until the key expires."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from openbell_server.domain.access.api_keys import ApiKeyRecord
from openbell_server.domain.access.principals import CONTROL_EDITS, CONTROL_LOOSEN
from openbell_server.domain.agents.lasting_rules import SHARED_SCOPES, LastingRules
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.kinds.day_values import DayValue
from openbell_server.domain.controls.kinds.exposure import OpenOrders, Per, Position
from openbell_server.domain.controls.kinds.lists import Sides
from openbell_server.domain.controls.kinds.losses import LossLimit
from openbell_server.domain.controls.kinds.numbers import WIDE
from openbell_server.domain.controls.kinds.prices import OrderValue
from openbell_server.domain.controls.kinds.repeats import SubmitRate
from openbell_server.domain.controls.kinds.sizes import Quantity
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.money.losses import LossMark
from openbell_server.domain.orders.order_terms import OrderSide

_MINUTE_MILLIS: Final = 60_000
_INSTANT: Final = timedelta(microseconds=1)
_NOTHING: Final = Decimal(0)
# By scope, subject and currency: what a rule of a day's value has accepted on its present day.
DayKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """The highest value of one order in a currency."""

    value: Decimal
    currency: str
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class DayAmount:
    """The highest value that can still be accepted: on the present day, on each later one, and on all together."""

    currency: str
    scope: Scope
    timezone: str
    today: date
    accepted_today: Decimal
    left_today: Decimal
    per_day: Decimal
    # Days after the present one until the key expires; None: it never does.
    later_days: int | None

    @property
    def left_in_all(self) -> Decimal | None:
        if self.later_days is None:
            return None
        return WIDE.add(self.left_today, WIDE.multiply(self.per_day, Decimal(self.later_days)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LossStop:
    value: Decimal
    currency: str
    scope: Scope
    timezone: str
    measured_from: str
    on_breach: str
    # None: not measured at present.
    lost_today: Decimal | None

    @property
    def is_reached(self) -> bool:
        return self.lost_today is not None and self.lost_today > self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCase:
    """What the key can do in one account. None and empty lists: no rule limits it."""

    # Why it can place no order, or only reduce: of a switch, the account or the organization.
    stopped_by: str | None
    # The only symbols; None: every one but those denied.
    symbols: tuple[str, ...] | None
    denied_symbols: tuple[str, ...]
    sides: tuple[str, ...]
    sells_only_what_is_held: bool
    order_values: tuple[Amount, ...]
    # Limits that apply only while the price, rate or instrument that they need is known.
    order_values_with_price: tuple[Amount, ...]
    day_values: tuple[DayAmount, ...]
    quantity: Decimal | None
    position: Decimal | None
    orders_per_minute: int | None
    open_orders: int | None
    losses: tuple[LossStop, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFacts:
    account_id: AccountId
    book: RuleBook
    # Why nobody trades in it; None: it is open.
    closed_by: str | None
    accepted: Mapping[DayKey, Decimal]
    losses: Mapping[tuple[str, str], LossMark]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCase:
    key: ApiKeyRecord
    now: datetime
    # Why it can do nothing at all: revoked, expired or disabled.
    ended_by: str | None
    can_trade: bool
    can_loosen: bool
    # Accounts for which everything is the same.
    accounts: tuple[tuple[tuple[AccountId, ...], AccountCase], ...]
    # Whether there are more accounts than were looked at.
    has_more_accounts: bool
    # Over all accounts, the strictest per currency; empty: not limited.
    days: tuple[DayAmount, ...]


def worst_case(
    key: ApiKeyRecord, now: datetime, accounts: Sequence[AccountFacts], *, has_more_accounts: bool
) -> WorstCase:
    loosens = CONTROL_LOOSEN in key.permissions and CONTROL_EDITS[key.environment] in key.permissions
    cases = [(each.account_id, _account_case(key, now, each, loosens=loosens)) for each in accounts]
    groups: dict[AccountCase, list[AccountId]] = {}
    for account_id, case in cases:
        groups.setdefault(case, []).append(account_id)
    return WorstCase(
        key=key,
        now=now,
        ended_by=_ended_by(key, now),
        can_trade="intent:edit" in key.permissions,
        can_loosen=loosens,
        accounts=tuple((tuple(ids), case) for case, ids in groups.items()),
        has_more_accounts=has_more_accounts,
        days=() if has_more_accounts else _days_of_all([case for _, case in cases]),
    )


def day_rules(key: ApiKeyRecord, book: RuleBook) -> list[tuple[Rule, DayValue]]:
    """Rules whose accepted values the worst case needs."""
    found = [(rule, rule.parameters) for rule in book.rules if rule.api_key_id in (None, str(key.id))]
    return [(rule, parameters) for rule, parameters in found if isinstance(parameters, DayValue)]


def _ended_by(key: ApiKeyRecord, now: datetime) -> str | None:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and key.expires_at <= now:
        return "expired"
    return "disabled" if key.disabled else None


def _account_case(key: ApiKeyRecord, now: datetime, facts: AccountFacts, *, loosens: bool) -> AccountCase:
    limits = LastingRules(key, now, facts.book, loosens=loosens)
    symbols, denied = limits.symbols()
    sides = limits.of(Sides)
    allowed = [set(each.allowed) for _, of_group in sides for each in of_group]
    held = [rule for rule, of_group in sides if all(each.no_short for each in of_group) and limits.is_firm(rule)]
    values = [(rule, of_group) for rule, of_group in limits.of(OrderValue) if type(of_group[0]) is OrderValue]
    return AccountCase(
        stopped_by=facts.closed_by or limits.stopped_by(),
        symbols=symbols,
        denied_symbols=denied,
        sides=tuple(str(side) for side in OrderSide if all(side in each for each in allowed)),
        sells_only_what_is_held=bool(held),
        order_values=_strictest_values([pair for pair in values if limits.is_firm(pair[0])]),
        order_values_with_price=_strictest_values([pair for pair in values if not limits.is_firm(pair[0])]),
        day_values=_day_amounts(key, now, facts, limits),
        quantity=limits.smallest(Quantity, "QTY_MAX", lambda each: each.quantity),
        position=limits.smallest(Position, "POSITION_MAX", lambda each: each.quantity, firm=True),
        orders_per_minute=limits.smallest(SubmitRate, "RATE_ORDERS", _per_minute),
        open_orders=limits.smallest(
            OpenOrders, "OPEN_ORDERS_MAX", lambda each: each.count if each.per is Per.ACCOUNT else None
        ),
        losses=_loss_stops(now, facts, limits),
    )


def _per_minute(rate: SubmitRate) -> int:
    """The most commands of any minute: so many windows cover it."""
    return rate.count * -(-_MINUTE_MILLIS // rate.window_millis)


def _strictest_values(values: Sequence[tuple[Rule, Sequence[OrderValue]]]) -> tuple[Amount, ...]:
    strictest: dict[str, Amount] = {}
    for rule, parameters in values:
        currency, value = parameters[0].currency, max(each.value for each in parameters)
        if any(each.currency != currency for each in parameters):
            continue
        if currency not in strictest or value < strictest[currency].value:
            strictest[currency] = Amount(value=value, currency=currency, scope=rule.scope)
    return tuple(strictest[currency] for currency in sorted(strictest))


def _day_amounts(key: ApiKeyRecord, now: datetime, facts: AccountFacts, limits: LastingRules) -> tuple[DayAmount, ...]:
    found = []
    for rule, parameters in limits.of(DayValue):
        first: DayValue = parameters[0]
        today = first.day_of(now)
        places = {(each.currency, each.timezone) for each in parameters}
        accepted = facts.accepted.get((rule.scope, rule.subject, first.currency))
        if today is None or accepted is None or len(places) > 1 or not limits.is_firm(rule):
            continue
        last = None if key.expires_at is None else first.day_of(max(now, key.expires_at - _INSTANT))
        per_day = max(each.value for each in parameters)
        found.append(
            DayAmount(
                currency=first.currency,
                scope=rule.scope,
                timezone=first.timezone or "UTC",
                today=today,
                accepted_today=accepted,
                left_today=max(_NOTHING, WIDE.subtract(per_day, accepted)),
                per_day=per_day,
                later_days=None if last is None else (last - today).days,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.currency, each.left_today, each.scope)))


def _loss_stops(now: datetime, facts: AccountFacts, limits: LastingRules) -> tuple[LossStop, ...]:
    stops = []
    for rule, parameters in limits.of(LossLimit):
        loosest: LossLimit = max(parameters, key=lambda each: each.value)
        if len({each.currency for each in parameters}) > 1 or not limits.is_firm(rule):
            continue
        mark = facts.losses.get(loosest.place)
        stops.append(
            LossStop(
                value=loosest.value,
                currency=loosest.currency,
                scope=rule.scope,
                timezone=loosest.place[1],
                measured_from=str(loosest.measured_from),
                on_breach=str(loosest.on_breach),
                lost_today=loosest.lost(mark) if mark is not None and mark.is_current(now) else None,
            )
        )
    return tuple(sorted(stops, key=lambda each: (each.currency, each.value)))


def _days_of_all(cases: Sequence[AccountCase]) -> tuple[DayAmount, ...]:
    """Per currency the strictest bound of all accounts: of one rule that they share, or the sum of their own."""
    bounds = [
        bound
        for currency in sorted({day.currency for case in cases for day in case.day_values})
        for bound in [_of_all([[d for d in case.day_values if d.currency == currency] for case in cases])]
        if bound is not None
    ]
    return tuple(bounds)


def _of_all(days: Sequence[Sequence[DayAmount]]) -> DayAmount | None:
    """The days of each account in one currency; None where an account has no limit."""
    if not all(days):
        return None
    shared = [
        _joined([day for of_account in days for day in of_account if day.scope is scope], _largest)
        for scope in Scope
        if scope in SHARED_SCOPES and all(any(day.scope is scope for day in of_account) for of_account in days)
    ]
    own = _joined([of_account[0] for of_account in days], _sum)
    return min([*shared, own], key=lambda each: (each.left_today, each.per_day))


def _joined(days: Sequence[DayAmount], join: Callable[[Sequence[Decimal]], Decimal]) -> DayAmount:
    """One bound for several: the accounts' days may begin at different times, so it counts every date of any."""
    today = min(day.today for day in days)
    lasts = [None if day.later_days is None else day.today + timedelta(days=day.later_days) for day in days]
    return DayAmount(
        currency=days[0].currency,
        scope=days[0].scope,
        timezone=days[0].timezone,
        today=today,
        accepted_today=join([day.accepted_today for day in days]),
        left_today=join([day.left_today for day in days]),
        per_day=join([day.per_day for day in days]),
        later_days=None if None in lasts else max((last - today).days for last in lasts if last is not None),
    )


def _largest(values: Sequence[Decimal]) -> Decimal:
    return max(values)


def _sum(values: Sequence[Decimal]) -> Decimal:
    total = _NOTHING
    for value in values:
        total = WIDE.add(total, value)
    return total
