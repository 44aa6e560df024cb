"""Say what a change of rules would have refused, by an account's own record."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.calendars import SessionChangeStore
from openbell_server.application.ports.history import HistoryStore
from openbell_server.application.ports.rules import RuleBookStore
from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.backtest_controls import LOOK_BACK_MILLIS, Replay, Tally
from openbell_server.domain.control_facts import Gate
from openbell_server.domain.control_lists import SymbolList
from openbell_server.domain.control_rules import Address, OnMissing, Rule, RuleBook
from openbell_server.domain.control_times import MARKET_CLOSED, completed
from openbell_server.domain.controls_catalogue import CATALOGUE, checked_parameters
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.findings import Mode, Scope
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.market_calendars import MarketCalendars
from openbell_server.domain.principals import Principal

COMMANDS_MAX: Final = 200_000
EXAMPLES_MAX: Final = 100
RULES_MAX: Final = 50
WINDOW: Final = timedelta(days=7)
WINDOW_MAX: Final = timedelta(days=31)
LOOK_BACK: Final = timedelta(milliseconds=LOOK_BACK_MILLIS)
# What is judged before others have their turn: a few milliseconds.
_ENTRIES_PER_TURN: Final = 64
# Of a rule that nobody has set.
_PROPOSED_VERSION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRule:
    """A rule that somebody thinks of."""

    scope: Scope
    code: str
    parameters: Mapping[str, Any]
    mode: Mode = Mode.HARD
    on_missing: OnMissing | None = None
    symbol: str | None = None
    key_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRequest:
    """Which rules, by which part of the record; since and until are the last seven days where they are left out."""

    account_id: AccountId
    rules: Sequence[ProposedRule]
    since: datetime | None = None
    until: datetime | None = None
    # Whether they stand alone, or beside those in force that are not of the same scope and code.
    replaces_all: bool = True
    examples_max: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtested:
    """What the rules would have said of the commands of a window."""

    since: datetime
    until: datetime
    tally: Tally


@dataclass(frozen=True, slots=True)
class BacktestRules:
    """Judges an account's record by rules that somebody thinks of; nothing is written."""

    accounts: AccountStore
    books: RuleBookStore
    history: HistoryStore
    brokers: Mapping[str, BrokerDefinition]
    calendars: MarketCalendars
    changes: SessionChangeStore
    # Organizations that have one under way: one at a time leaves room for others.
    running: set[OrganizationId] = field(default_factory=set)

    async def __call__(self, caller: Principal, request: BacktestRequest) -> Backtested:
        """Replay the window, or say why not."""
        account = await self.accounts.find_account(caller.organization_id, request.account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.READ_CONTROLS, account)
        rules = [self._rule(account, place, proposed) for place, proposed in enumerate(request.rules)]
        if account.organization_id in self.running:
            raise Problem("backtest_running", "one back-test of the organization is under way here")
        self.running.add(account.organization_id)
        try:
            return await self._replay(account, request, rules)
        finally:
            self.running.discard(account.organization_id)

    async def _replay(self, account: TradingAccount, request: BacktestRequest, rules: list[Rule]) -> Backtested:
        forgotten = await self.history.forgotten_until(account)
        since, until = _window(request, await self.history.now(account), forgotten)
        book = await self._book(account, rules, replaces_all=request.replaces_all)
        stretch = await self.history.stretch(account, since - LOOK_BACK, until, COMMANDS_MAX)
        if stretch.fits_since is not None:
            fits = (stretch.fits_since + LOOK_BACK).isoformat()
            message = (
                f"must be later: with the hour before it there are {stretch.commands} commands, and at most "
                f"{COMMANDS_MAX} are replayed at once; from {fits} on they fit"
            )
            raise InvalidCommand("/from", message)
        replay = Replay(
            book,
            await self.history.state_before(account, stretch),
            since=since,
            calendars=self.calendars,
            examples_max=request.examples_max,
            is_whole=stretch.is_whole,
        )
        async for page in self.history.entries(account, stretch):
            for start in range(0, len(page), _ENTRIES_PER_TURN):
                replay.take(page[start : start + _ENTRIES_PER_TURN])
                await asyncio.sleep(0)
        # What went while it was read was missing in a part of it.
        _require_kept(since, await self.history.forgotten_until(account))
        return Backtested(since=since, until=until, tally=replay.tally)

    async def _book(self, account: TradingAccount, rules: list[Rule], *, replaces_all: bool) -> RuleBook:
        in_force: list[Rule] = []
        if not replaces_all:
            places = {_place(rule) for rule in rules}
            in_force = [rule for rule in (await self.books.rule_book(account)).rules if _place(rule) not in places]
        has_markets = any(rule.code == MARKET_CLOSED.code for rule in rules)
        changes = await self.changes.session_changes() if has_markets else ()
        return RuleBook(
            organization_epoch=account.organization_epoch,
            account_epoch=account.account_epoch,
            rules=(*in_force, *(completed(rule, account.timezone, changes) for rule in rules)),
        )

    def _rule(self, account: TradingAccount, place: int, proposed: ProposedRule) -> Rule:
        """The rule as it is evaluated, if it may be set."""
        try:
            parameters = checked_parameters(proposed.code, proposed.scope, proposed.parameters)
            if isinstance(parameters, SymbolList):
                parameters = parameters.respelled(self.brokers[account.broker].canonical_symbol)
            symbol = self._symbol(account, proposed)
        except InvalidCommand as refusal:
            [error] = refusal.errors
            raise InvalidCommand(f"/rules/{place}{error.pointer}", error.message) from refusal
        if Gate.ACCEPT not in CATALOGUE[proposed.code].gates:
            message = "is judged at the door, where the record does not tell what it would have said"
            raise InvalidCommand(f"/rules/{place}/code", message)
        if (proposed.key_id is not None) != (proposed.scope is Scope.KEY):
            raise InvalidCommand(f"/rules/{place}/key_id", "must be given for the scope key, and for no other")
        address = Address(
            organization_id=account.organization_id,
            scope=proposed.scope,
            account_id=account.id if proposed.scope in {Scope.ACCOUNT, Scope.SYMBOL} else None,
            symbol=symbol,
            key_id=proposed.key_id,
        )
        return Rule(
            code=proposed.code,
            scope=proposed.scope,
            subject=address.subject,
            symbol=symbol,
            key_id=proposed.key_id,
            parameters=parameters,
            mode=proposed.mode,
            on_missing=proposed.on_missing,
            version=_PROPOSED_VERSION,
        )

    def _symbol(self, account: TradingAccount, proposed: ProposedRule) -> Symbol | None:
        if (proposed.symbol is not None) != (proposed.scope is Scope.SYMBOL):
            raise InvalidCommand("/symbol", "must be given for the scope symbol, and for no other")
        if proposed.symbol is None:
            return None
        symbol = self.brokers[account.broker].canonical_symbol(proposed.symbol)
        if symbol is None:
            raise InvalidCommand("/symbol", "must be 1 to 32 of A-Z, 0-9 and . - / : _")
        return symbol


def _window(request: BacktestRequest, now: datetime, forgotten: datetime | None) -> tuple[datetime, datetime]:
    until = min(now, request.until or now)
    since = request.since or until - WINDOW
    if request.since is None and forgotten is not None:
        since = max(since, _kept_since(forgotten))
    if since >= until:
        raise InvalidCommand("/from", "must be before to, and in the past")
    if until - since > WINDOW_MAX:
        raise InvalidCommand("/from", f"must be at most {WINDOW_MAX.days} days before to")
    _require_kept(since, forgotten)
    return since, until


def _kept_since(forgotten: datetime) -> datetime:
    """The earliest beginning of a window that nothing is missing of, nor of the hour before it."""
    return forgotten + LOOK_BACK + timedelta(microseconds=1)


def _require_kept(since: datetime, forgotten: datetime | None) -> None:
    if forgotten is not None and since < _kept_since(forgotten):
        message = (
            "must be later: events are kept for a time, and with the hour before it, some are gone;"
            f" from {_kept_since(forgotten).isoformat()} on none is"
        )
        raise InvalidCommand("/from", message)


def _place(rule: Rule) -> tuple[Scope, str, Symbol | None, str | None]:
    return rule.scope, rule.code, rule.symbol, rule.key_id
