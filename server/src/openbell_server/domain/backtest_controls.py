"""What rules would have said of recorded commands, each judged by what was true when it was asked.

The record is not rewritten: an order that the rules would have refused goes on to count, because it was there.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from openbell_server.domain.control_facts import Asked, Facts, Gate, Need
from openbell_server.domain.control_increments import LOT, TICK
from openbell_server.domain.control_prices import NOTIONAL_MAX, PRICE_COLLAR, Collar
from openbell_server.domain.control_repeats import DUPLICATE_MILLIS_MAX, RATE_MILLIS_MAX, RATE_ORDERS, SubmitRate
from openbell_server.domain.control_rules import Rule, RuleBook
from openbell_server.domain.controls_catalogue import CATALOGUE
from openbell_server.domain.evaluate_controls import exemption, in_order, speaking, told, words
from openbell_server.domain.findings import Finding, Mode, Scope, Verdict, Word
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.intents import ActionType
from openbell_server.domain.market_calendars import MarketCalendars
from openbell_server.domain.orders import OrderType
from openbell_server.domain.recalled_markets import NOTHING_RECALLED, Recalled
from openbell_server.domain.recorded_state import OrderTold, PositionAdjusted, RecordedState, ReplaceSettled

# No rule counts further back.
LOOK_BACK_MILLIS: Final = max(DUPLICATE_MILLIS_MAX, RATE_MILLIS_MAX)
# Commands of other accounts count for these too, and one account's record does not have them.
_SHARED: Final = frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.KEY})
# What these know of the market is on record only as far as some rule looked at it then.
_OF_MARKETS: Final = frozenset(kind.code for kind in (NOTIONAL_MAX, PRICE_COLLAR, TICK, LOT))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCommand:
    """A command as it was asked. The terms of the order that a REPLACE changes are those of the record."""

    # Of the action, or of the receipt where it was refused.
    id: UUID
    asked: Asked
    # None where it was refused and its receipt does not say.
    intent_id: IntentId | None
    # None where it was refused.
    seq: int | None
    recorded_at: datetime
    judged_at: datetime
    recalled: Recalled = NOTHING_RECALLED

    @property
    def was_refused(self) -> bool:
        """Whether a control refused it then."""
        return self.seq is None


Entry = RecordedCommand | OrderTold | ReplaceSettled | PositionAdjusted


@dataclass(slots=True)
class RuleTally:
    """What one rule would have said, in numbers."""

    scope: Scope
    code: str
    symbol: Symbol | None
    key_id: str | None
    refused: int = 0
    would_refuse: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A command of which the rules would have said otherwise than was said then, and what each would have said."""

    command: RecordedCommand
    is_refused: bool
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class Tally:
    """What the rules would have said of all commands, in numbers and a few examples."""

    examples_max: int
    # Commands that ask for an order, or for more of one: others no rule may refuse.
    intents: int = 0
    # Those of which the record tells enough.
    judged: int = 0
    refused: int = 0
    undecided: int = 0
    newly_refused: int = 0
    newly_accepted: int = 0
    by_rule: dict[tuple[Scope, str, Symbol | None, str | None], RuleTally] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)


class Replay:
    """Takes an account's record entry by entry, in the order of its lock, and judges each command by a book."""

    def __init__(
        self,
        book: RuleBook,
        state: RecordedState,
        *,
        since: datetime,
        calendars: MarketCalendars | None = None,
        examples_max: int = 0,
        is_whole: bool = False,
    ) -> None:
        """Judge commands since a moment; those before only count. Whole is a record beside which there is no other."""
        self.tally = Tally(examples_max)
        self._book, self._state, self._since, self._calendars = book, state, since, calendars
        self._is_whole = is_whole
        # When commands were judged by a rule of rates, by its scope and subject.
        self._judged: dict[tuple[str, str], deque[datetime]] = {}
        self._speaking: dict[tuple[Symbol, str | None], list[Rule]] = {}
        for rule in book.rules:
            line = RuleTally(rule.scope, rule.code, rule.symbol, rule.key_id)
            self.tally.by_rule[rule.scope, rule.code, rule.symbol, rule.key_id] = line

    def take(self, entries: Iterable[Entry]) -> None:
        """Go on with the next entries of the record."""
        state = self._state
        for entry in entries:
            match entry:
                case RecordedCommand():
                    self._command(entry)
                case OrderTold():
                    state.told(entry)
                case ReplaceSettled():
                    state.settled(entry)
                case PositionAdjusted():
                    state.moved(entry.symbol, entry.change)

    def _command(self, command: RecordedCommand) -> None:
        asked = self._as_the_order_stood(command)
        counts = command.recorded_at >= self._since
        if asked.action_type is ActionType.REPLACE and asked.before is None:
            # Nothing tells which order it was about, so nothing tells whether it asked for more.
            if counts:
                self._tell(command, is_undecided=True)
        elif exemption(asked) is None:
            rules = self._applicable(asked, command.judged_at)
            rates = [rule for rule in rules if rule.code == RATE_ORDERS.code]
            if counts:
                self._judge(command, asked, rules, rates)
            for rule in rates:
                self._times(rule, command.judged_at).appendleft(command.judged_at)
        if command.seq is not None and command.intent_id is not None:
            self._state.accepted(asked, command.intent_id, command.seq, command.recorded_at)

    def _applicable(self, asked: Asked, now: datetime) -> list[Rule]:
        """The rules that apply. Which speak about commands of a symbol and a key is found out once."""
        about = (asked.symbol, asked.key_id)
        rules = self._speaking.get(about)
        if rules is None:
            rules = self._speaking[about] = in_order(speaking(self._book, asked, Gate.ACCEPT))
        return [rule for rule in rules if rule.is_in_force(now)]

    def _times(self, rule: Rule, now: datetime) -> deque[datetime]:
        """When commands were judged by a rule of rates, newest first, no more than its limit and none that is too old.

        They are judged under the account's lock, so what is too old now is so for whatever follows.
        """
        assert isinstance(rule.parameters, SubmitRate)
        times = self._judged.get((rule.scope, rule.subject))
        if times is None:
            times = self._judged[rule.scope, rule.subject] = deque(maxlen=rule.parameters.count)
        window = timedelta(milliseconds=rule.parameters.window_millis)
        while times and now - times[-1] >= window:
            times.pop()
        return times

    def _as_the_order_stood(self, command: RecordedCommand) -> Asked:
        """The command, a REPLACE with the terms that its order had by the record."""
        asked = command.asked
        if asked.action_type is not ActionType.REPLACE or command.intent_id is None:
            return asked
        order = self._state.order_of(command.intent_id)
        if order is None:
            return asked
        terms, filled_quantity = order
        return replace(asked, before=terms, filled_quantity=filled_quantity)

    def _judge(self, command: RecordedCommand, asked: Asked, rules: Sequence[Rule], rates: Sequence[Rule]) -> None:
        said = words(rules, self._book, asked, self._facts(command, asked, rates))
        unsure = {
            (rule.code, rule.scope)
            for rule in rules
            if rule.code in _OF_MARKETS and _is_unsure(rule, command.recalled, asked)
        }
        shared = {(rule.code, rule.scope) for rule in rates if rule.scope in _SHARED and not self._is_whole}
        # Of most commands every rule says clearly that they pass, and no more need be told of them.
        unclear = said if unsure or shared else [word for word in said if not word.is_clear]
        is_refused = is_undecided = False
        for finding in told(self._book, unclear):
            rule, passes = (finding.code, finding.scope), finding.verdict is Verdict.PASSED
            if finding.missing is not None or rule in unsure or (passes and rule in shared):
                self._line(finding, asked).undecided += 1
                # A rule that only watches decides nothing.
                is_undecided = is_undecided or finding.mode is Mode.HARD
            elif finding.refuses:
                self._line(finding, asked).refused += 1
                is_refused = True
            elif not passes:
                self._line(finding, asked).would_refuse += 1
        self._tell(command, said, is_refused=is_refused, is_undecided=is_undecided and not is_refused)

    def _facts(self, command: RecordedCommand, asked: Asked, rates: Sequence[Rule]) -> Facts:
        recalled, now = command.recalled, command.judged_at
        # What an order has at work itself must not be counted against its replace.
        is_nameless = asked.action_type is ActionType.REPLACE and command.intent_id is None
        return Facts(
            now=now,
            price=recalled.price,
            instrument=recalled.instrument,
            rates_of_exchange=recalled.rates_of_exchange,
            exposure=None if is_nameless else self._state.exposure(asked, command.intent_id, now),
            calendars=self._calendars,
            equal_orders=self._state.equal_orders(asked),
            judged={(rule.scope, rule.subject): self._times(rule, now) for rule in rates},
        )

    def _tell(
        self,
        command: RecordedCommand,
        said: Sequence[Word] = (),
        *,
        is_refused: bool = False,
        is_undecided: bool = False,
    ) -> None:
        tally = self.tally
        tally.intents += 1
        if is_undecided:
            tally.undecided += 1
            return
        tally.judged += 1
        tally.refused += is_refused
        tally.newly_refused += is_refused and not command.was_refused
        tally.newly_accepted += command.was_refused and not is_refused
        if is_refused is not command.was_refused and len(tally.examples) < tally.examples_max:
            findings = tuple(told(self._book, said))
            tally.examples.append(Example(command=command, is_refused=is_refused, findings=findings))

    def _line(self, finding: Finding, asked: Asked) -> RuleTally:
        """The line of the rule that found it; a switch is known by its states."""
        symbol = asked.symbol if finding.scope is Scope.SYMBOL else None
        key_id = asked.key_id if finding.scope is Scope.KEY else None
        place = (finding.scope, finding.code, symbol, key_id)
        line = self.tally.by_rule.get(place)
        if line is None:
            line = self.tally.by_rule[place] = RuleTally(finding.scope, finding.code, symbol, key_id)
        return line


def _is_unsure(rule: Rule, recalled: Recalled, asked: Asked) -> bool:
    """Whether a rule would have looked at more of the market than the receipt tells."""
    parameters = rule.parameters
    if isinstance(parameters, Collar):
        is_by_spread = parameters.spread_percent is not None and asked.order_type is OrderType.MARKET
        return is_by_spread and recalled.price is not None and recalled.price.bid is None
    if rule.code in recalled.instrument_known_to:
        return False
    return Need.INSTRUMENT in CATALOGUE[rule.code].needs(parameters, asked)
