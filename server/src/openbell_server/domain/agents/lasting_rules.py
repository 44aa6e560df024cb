"""The rules that refuse commands of a key for as long as it lives: what a worst case is computed from."""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ApiKeyRecord
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.lists import ListKind, SymbolList
from openbell_server.domain.controls.kinds.switches import Switch
from openbell_server.domain.controls.rules import OnMissing, Rule, RuleBook, SwitchState
from openbell_server.domain.controls.symbol_controls import ManualControl
from openbell_server.domain.identifiers import Symbol

# Scopes whose rules no API key can change.
SHARED_SCOPES: Final = frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.KEY})
Number = TypeVar("Number", Decimal, int)


class LastingRules:
    """The rules of a book that refuse commands of the key, each until the key expires."""

    def __init__(self, key: ApiKeyRecord, now: datetime, book: RuleBook, *, loosens: bool) -> None:
        self._now, self._until = now, key.expires_at
        self._environment = key.environment
        mine = [
            rule
            for rule in book.rules
            if rule.mode is Mode.HARD
            and rule.api_key_id in (None, str(key.id))
            # A key that may loosen undoes what is set at an account.
            and (not loosens or rule.scope in SHARED_SCOPES)
        ]
        self._groups: dict[tuple[str, str, str], list[Rule]] = {}
        for rule in mine if not book.is_watched_only else []:
            self._groups.setdefault((rule.code, rule.scope, rule.subject), []).append(rule)
        self._unreadable = [rule for rule in book.unreadable if rule.api_key_id in (None, str(key.id))]

    def is_firm(self, rule: Rule) -> bool:
        """Whether it also refuses where an input is missing."""
        if rule.on_missing is None:
            return self._environment is Environment.LIVE
        return rule.on_missing is OnMissing.DENY

    def of(self, kind: type) -> list[tuple[Rule, list[Any]]]:
        """Rules of every symbol that last until the key expires, with the parameters that they have until then."""
        return [
            # One that is not firm, if there is one.
            (min(group, key=self.is_firm), found)
            for group in self._groups.values()
            if group[0].symbol is None
            and self._lasts(group)
            and (found := [rule.parameters for rule in group if self._matters(rule)])
            and all(isinstance(each, kind) for each in found)
        ]

    def smallest(
        self, kind: type, code: str, number: Callable[[Any], Number | None], *, firm: bool = False
    ) -> Number | None:
        """The strictest of all rules, each by its loosest parameters; None without one."""
        smallest = None
        for rule, parameters in self.of(kind):
            numbers = [each for each in map(number, parameters) if each is not None]
            if rule.code != code or len(numbers) < len(parameters) or (firm and not self.is_firm(rule)):
                continue
            loosest = max(numbers)
            smallest = loosest if smallest is None else min(smallest, loosest)
        return smallest

    def symbols(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """The only symbols (None: no list), and those denied."""
        lists = self.of(SymbolList)
        denied = frozenset[str]().union(*(frozenset.intersection(*(e.denied for e in each)) for _, each in lists))
        denied |= self._disabled_symbols()
        only = [frozenset[str]().union(*(e.symbols for e in each)) for _, each in lists if all(map(_is_only, each))]
        if not only:
            return None, tuple(sorted(denied))
        return tuple(sorted(frozenset.intersection(*only) - denied)), ()

    def _disabled_symbols(self) -> frozenset[Symbol]:
        rules = [
            rule for group in self._groups.values() for rule in group if isinstance(rule.parameters, ManualControl)
        ]
        return frozenset(
            rule.symbol
            for rule in rules
            if isinstance(rule.parameters, ManualControl) and rule.parameters.manually_disabled and rule.symbol
        )

    def stopped_by(self) -> str | None:
        """The strictest switch, or a rule that cannot be read."""
        if any(rule.symbol is None and rule.is_in_force(self._now) for rule in self._unreadable):
            return "a rule that cannot be read"
        states = [
            rule.parameters.status
            for group in self._groups.values()
            for rule in group
            if isinstance(rule.parameters, Switch) and rule.is_in_force(self._now)
        ]
        stopping = [state for state in (SwitchState.HALTED, SwitchState.REDUCE_ONLY) if state in states]
        return f"a switch that is {stopping[0]}" if stopping else None

    def _matters(self, rule: Rule) -> bool:
        """Whether it applies now or later, before the key expires."""
        is_over = rule.applies_until is not None and rule.applies_until <= self._now
        is_late = rule.applies_from is not None and self._until is not None and rule.applies_from >= self._until
        return not is_over and not is_late

    def _lasts(self, group: Sequence[Rule]) -> bool:
        """Whether some rule of the group applies at every time until the key expires."""
        reached: datetime | None = self._now
        for rule in sorted(group, key=lambda each: each.applies_from or self._now):
            if reached is not None and (rule.applies_from is None or rule.applies_from <= reached):
                reached = None if rule.applies_until is None else max(reached, rule.applies_until)
        return reached is None or (self._until is not None and reached >= self._until)


def _is_only(symbols: SymbolList) -> bool:
    return symbols.list is ListKind.ALLOW_ONLY
