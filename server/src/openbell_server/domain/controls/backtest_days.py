"""The value of what was accepted on a day, rebuilt from the record."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from openbell_server.domain.controls.facts import CommandFacts, Facts
from openbell_server.domain.controls.kinds.day_values import DayValue, added_value, has_value
from openbell_server.domain.controls.kinds.numbers import NOTHING, WIDE
from openbell_server.domain.controls.rules import Rule


@dataclass(slots=True)
class _Day:
    day: date
    accepted: Decimal = NOTHING
    # Whether a price is not recorded that the value of an accepted command depends on.
    lacks_prices: bool = False


class RecordedDays:
    """Of each rule the present day; commands come in time order."""

    def __init__(self, begins_at: datetime | None) -> None:
        self._begins_at = begins_at
        self._days: dict[tuple[str, str], _Day] = {}

    def values(self, rules: Sequence[Rule], now: datetime) -> dict[tuple[str, str], Decimal]:
        days = {(str(rule.scope), rule.subject): self._day(rule, now) for rule in rules}
        return {place: day.accepted for place, day in days.items() if day is not None}

    def is_whole(self, rule: Rule, now: datetime) -> bool:
        """Whether the record has everything that was accepted on the day, with its prices."""
        day = self._day(rule, now)
        if day is None or day.lacks_prices:
            return False
        assert isinstance(rule.parameters, DayValue)
        return self._begins_at is None or self._begins_at <= rule.parameters.starts_at(day.day)

    def add(self, rule: Rule, asked: CommandFacts, facts: Facts) -> None:
        day = self._day(rule, facts.now)
        if day is not None:
            day.accepted = WIDE.add(day.accepted, added_value(rule, asked, facts))
            day.lacks_prices = day.lacks_prices or not has_value(rule, asked, facts)

    def _day(self, rule: Rule, now: datetime) -> _Day | None:
        assert isinstance(rule.parameters, DayValue)
        place, today = (str(rule.scope), rule.subject), rule.parameters.day_of(now)
        if today is None:
            return None
        found = self._days.get(place)
        if found is None or today > found.day:
            found = self._days[place] = _Day(today)
        return found
