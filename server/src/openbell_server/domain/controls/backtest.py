"""Back-test: what rules would have decided on recorded commands, with the facts of that time.

The record does not change: an order that the rules would have refused still counts afterwards, because it existed.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from openbell_server.domain.controls.backtest_days import RecordedDays
from openbell_server.domain.controls.backtest_markets import NOTHING_RECALLED, Recalled, held_elsewhere, lost_then
from openbell_server.domain.controls.backtest_state import (
    OrderSnapshot,
    PositionAdjusted,
    RecordedState,
    ReplaceSettled,
)
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.evaluate import (
    applicable_rules,
    apply_shadow_mode,
    evaluate_rules,
    exemption,
    in_order,
    with_position,
)
from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate, Holding, Need
from openbell_server.domain.controls.findings import Finding, Mode, RuleResult, Scope, Verdict
from openbell_server.domain.controls.kinds.day_values import DAY_NOTIONAL_MAX
from openbell_server.domain.controls.kinds.exposure import SELF_MATCH
from openbell_server.domain.controls.kinds.funds import BUYING_POWER
from openbell_server.domain.controls.kinds.gross import GROSS_MAX, GrossValue
from openbell_server.domain.controls.kinds.increments import LOT, TICK
from openbell_server.domain.controls.kinds.losses import LossLimit
from openbell_server.domain.controls.kinds.prices import NOTIONAL_MAX, PRICE_COLLAR, Collar
from openbell_server.domain.controls.kinds.repeats import DUPLICATE_MILLIS_MAX, RATE_MILLIS_MAX, RATE_ORDERS, SubmitRate
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.identifiers import IntentId, Symbol
from openbell_server.domain.markets.calendars import MarketCalendars
from openbell_server.domain.money.losses import LossMark
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderType

# No rule counts commands older than this.
LOOK_BACK_MILLIS: Final = max(DUPLICATE_MILLIS_MAX, RATE_MILLIS_MAX)
# Rules of these scopes also count commands of other accounts, which one account's record does not contain.
_SHARED: Final = frozenset({Scope.PLATFORM, Scope.ORGANIZATION, Scope.KEY})
# Receipts record market data for these kinds only as far as a rule used it then.
_OF_MARKETS: Final = frozenset(
    kind.code for kind in (NOTIONAL_MAX, DAY_NOTIONAL_MAX, GROSS_MAX, BUYING_POWER, PRICE_COLLAR, TICK, LOT)
)
# Kinds that count commands, of several accounts where their scope is shared.
_COUNTING: Final = frozenset(kind.code for kind in (RATE_ORDERS, DAY_NOTIONAL_MAX))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCommand:
    """A command as requested. The terms of the order that a REPLACE changes come from the record."""

    # The id of the action, or of the receipt if it was refused.
    id: UUID
    asked: CommandFacts
    # None if it was refused and its receipt does not name the intent.
    intent_id: IntentId | None
    # None if it was refused.
    seq: int | None
    recorded_at: datetime
    judged_at: datetime
    recalled: Recalled = NOTHING_RECALLED

    @property
    def was_refused(self) -> bool:
        return self.seq is None


Entry = RecordedCommand | OrderSnapshot | ReplaceSettled | PositionAdjusted


@dataclass(slots=True)
class RuleTally:
    scope: Scope
    code: str
    symbol: Symbol | None
    api_key_id: str | None
    refused: int = 0
    would_refuse: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A command that the rules would have decided differently, with the finding of each rule."""

    command: RecordedCommand
    is_refused: bool
    findings: tuple[Finding, ...]


@dataclass(slots=True)
class Tally:
    examples_max: int
    # Commands that rules may refuse: new orders, and replaces that raise risk.
    intents: int = 0
    # Those with enough recorded facts to decide.
    judged: int = 0
    refused: int = 0
    undecided: int = 0
    newly_refused: int = 0
    newly_accepted: int = 0
    by_rule: dict[tuple[Scope, str, Symbol | None, str | None], RuleTally] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)


class Replay:
    """Reads an account's record in commit order and evaluates each command with the rules of a book.

    Commands before `since` only count towards limits. `is_whole`: the organization has no other account, so that the
    record has all commands that shared rules count. `begins_at`: when the record begins, if that is after the account.
    """

    def __init__(
        self,
        book: RuleBook,
        state: RecordedState,
        *,
        since: datetime,
        calendars: MarketCalendars | None = None,
        examples_max: int = 0,
        is_whole: bool = False,
        begins_at: datetime | None = None,
    ) -> None:
        self.tally = Tally(examples_max)
        self._book, self._state, self._since, self._calendars = book, state, since, calendars
        self._is_whole = is_whole
        # Times of commands evaluated by a rate rule, by its scope and subject.
        self._judged: dict[tuple[str, str], deque[datetime]] = {}
        self._days = RecordedDays(begins_at)
        self._matching: dict[tuple[Symbol, str | None], list[Rule]] = {}
        for rule in book.rules:
            line = RuleTally(rule.scope, rule.code, rule.symbol, rule.api_key_id)
            self.tally.by_rule[rule.scope, rule.code, rule.symbol, rule.api_key_id] = line

    def take(self, entries: Iterable[Entry]) -> None:
        state = self._state
        for entry in entries:
            match entry:
                case RecordedCommand():
                    self._command(entry)
                case OrderSnapshot():
                    state.update(entry)
                case ReplaceSettled():
                    state.settled(entry)
                case PositionAdjusted():
                    state.moved(entry.symbol, entry.change)

    def _command(self, command: RecordedCommand) -> None:
        asked = self._as_the_order_stood(command)
        counts = command.recorded_at >= self._since
        if asked.action_type is ActionType.REPLACE and asked.before is None:
            # The order is not known, so it is not known whether the replace raised risk.
            if counts:
                self._record(command, is_undecided=True)
        elif exemption(asked) is None:
            rules = self._applicable(asked, command.judged_at)
            rates = [rule for rule in rules if rule.code == RATE_ORDERS.code]
            days = [rule for rule in rules if rule.code == DAY_NOTIONAL_MAX.code]
            facts = self._facts(command, asked, rules, rates, days) if counts or days else None
            if counts and facts is not None:
                self._judge(command, asked, rules, facts)
            if facts is not None and not command.was_refused:
                for rule in days:
                    self._days.add(rule, asked, facts)
            for rule in rates:
                self._times(rule, command.judged_at).appendleft(command.judged_at)
        if command.seq is not None and command.intent_id is not None:
            self._state.accepted(asked, command.intent_id, command.seq, command.recorded_at)

    def _applicable(self, asked: CommandFacts, now: datetime) -> list[Rule]:
        """The rules in force; which rules match a symbol and a key is cached."""
        about = (asked.symbol, asked.api_key_id)
        rules = self._matching.get(about)
        if rules is None:
            rules = self._matching[about] = in_order(applicable_rules(self._book, asked, Gate.ACCEPT))
        return [rule for rule in rules if rule.is_in_force(now)]

    def _times(self, rule: Rule, now: datetime) -> deque[datetime]:
        """Times of commands evaluated by a rate rule, newest first, within its window and at most its limit.

        Commands come in time order, so times outside the window are dropped for good.
        """
        assert isinstance(rule.parameters, SubmitRate)
        times = self._judged.get((rule.scope, rule.subject))
        if times is None:
            times = self._judged[rule.scope, rule.subject] = deque(maxlen=rule.parameters.count)
        window = timedelta(milliseconds=rule.parameters.window_millis)
        while times and now - times[-1] >= window:
            times.pop()
        return times

    def _as_the_order_stood(self, command: RecordedCommand) -> CommandFacts:
        asked = command.asked
        if asked.action_type is not ActionType.REPLACE or command.intent_id is None:
            return asked
        order = self._state.order_of(command.intent_id)
        if order is None:
            return asked
        terms, filled_quantity = order
        position = self._state.exposure(asked, command.intent_id, command.judged_at, matches=False).position
        return with_position(replace(asked, before=terms, filled_quantity=filled_quantity), position)

    def _judge(self, command: RecordedCommand, asked: CommandFacts, rules: Sequence[Rule], facts: Facts) -> None:
        results = evaluate_rules(rules, self._book, asked, facts)
        unsure = {
            (rule.code, rule.scope)
            for rule in rules
            if rule.code in _OF_MARKETS and _is_unsure(rule, command.recalled, asked)
        }
        shared = {
            (rule.code, rule.scope)
            for rule in rules
            if rule.code in _COUNTING and self._is_partly_recorded(rule, facts)
        }
        # Most commands clearly pass all rules: skip building their findings.
        unclear = results if unsure or shared else [result for result in results if not result.is_clear]
        is_refused = is_undecided = False
        for finding in apply_shadow_mode(self._book, unclear):
            rule, passes = (finding.code, finding.scope), finding.verdict is Verdict.PASSED
            if finding.missing is not None or rule in unsure or (passes and rule in shared):
                self._line(finding, asked).undecided += 1
                # A rule in shadow mode decides nothing.
                is_undecided = is_undecided or finding.mode is Mode.HARD
            elif finding.refuses:
                self._line(finding, asked).refused += 1
                is_refused = True
            elif not passes:
                self._line(finding, asked).would_refuse += 1
        self._record(command, results, is_refused=is_refused, is_undecided=is_undecided and not is_refused)

    def _facts(
        self,
        command: RecordedCommand,
        asked: CommandFacts,
        rules: Sequence[Rule],
        rates: Sequence[Rule],
        days: Sequence[Rule],
    ) -> Facts:
        recalled, now = command.recalled, command.judged_at
        # The order's own quantity must not count against its replace, and without an intent it cannot be subtracted.
        is_nameless = asked.action_type is ActionType.REPLACE and command.intent_id is None
        matches = any(rule.code == SELF_MATCH.code for rule in rules)
        return Facts(
            now=now,
            price=recalled.price,
            instrument=recalled.instrument,
            rates_of_exchange=recalled.rates_of_exchange,
            exposure=None if is_nameless else self._state.exposure(asked, command.intent_id, now, matches=matches),
            calendars=self._calendars,
            equal_orders=self._state.equal_orders(asked),
            judged={(rule.scope, rule.subject): self._times(rule, now) for rule in rates},
            day_values=self._days.values(days, now),
            others=self._others(command, rules),
            losses=_losses(command, rules),
            funds=recalled.funds,
        )

    def _others(self, command: RecordedCommand, rules: Sequence[Rule]) -> list[Holding]:
        """What was held in other symbols, as one of the recorded value; without it, one of which nothing is known."""
        limits = [rule.parameters for rule in rules if isinstance(rule.parameters, GrossValue)]
        if not limits or not self._state.holds_other_symbols(command.asked.symbol):
            return []
        return [held_elsewhere(command.recalled.others.get(limits[0].currency), limits[0].currency, command.judged_at)]

    def _is_partly_recorded(self, rule: Rule, facts: Facts) -> bool:
        """Whether the record may lack some of what a rule counts; a refusal is certain all the same."""
        if rule.scope in _SHARED and not self._is_whole:
            return True
        return rule.code == DAY_NOTIONAL_MAX.code and not self._days.is_whole(rule, facts.now)

    def _record(
        self,
        command: RecordedCommand,
        results: Sequence[RuleResult] = (),
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
            findings = tuple(apply_shadow_mode(self._book, results))
            tally.examples.append(Example(command=command, is_refused=is_refused, findings=findings))

    def _line(self, finding: Finding, asked: CommandFacts) -> RuleTally:
        """The tally of the rule behind a finding; a switch is listed by its states."""
        symbol = asked.symbol if finding.scope is Scope.SYMBOL else None
        api_key_id = asked.api_key_id if finding.scope is Scope.KEY else None
        place = (finding.scope, finding.code, symbol, api_key_id)
        line = self.tally.by_rule.get(place)
        if line is None:
            line = self.tally.by_rule[place] = RuleTally(finding.scope, finding.code, symbol, api_key_id)
        return line


def _losses(command: RecordedCommand, rules: Sequence[Rule]) -> dict[tuple[str, str], LossMark]:
    """Without those that some rule needs and no receipt has."""
    limits, then = (
        [rule.parameters for rule in rules if isinstance(rule.parameters, LossLimit)],
        command.recalled.losses,
    )
    unknown = {limit.place for limit in limits if (*limit.place, limit.measured_from) not in then}
    places = {limit.place for limit in limits} - unknown
    return {place: lost_then(then, place, command.judged_at) for place in places}


def _is_unsure(rule: Rule, recalled: Recalled, asked: CommandFacts) -> bool:
    """Whether a rule would have needed more market data than the receipt has."""
    parameters = rule.parameters
    if isinstance(parameters, Collar):
        is_by_spread = parameters.spread_percent is not None and asked.order_type is OrderType.MARKET
        return is_by_spread and recalled.price is not None and recalled.price.bid is None
    if rule.code in recalled.instrument_known_to:
        return False
    return Need.INSTRUMENT in CATALOGUE[rule.code].needs(parameters, asked)
