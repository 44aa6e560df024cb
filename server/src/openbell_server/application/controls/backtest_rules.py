"""Back-test rules: replay an account's record and count what proposed rules would have refused."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.ports.backtest_history import HistoryStore
from openbell_server.application.controls.ports.calendars import SessionChangeStore
from openbell_server.application.controls.ports.rules import RuleBookStore
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.caps import CAPS, Cap
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.backtest import LOOK_BACK_MILLIS, Replay, Tally
from openbell_server.domain.controls.catalogue import CATALOGUE, checked_parameters
from openbell_server.domain.controls.facts import Gate
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.kinds.completed import completed
from openbell_server.domain.controls.kinds.lists import SymbolList
from openbell_server.domain.controls.kinds.times import MARKET_CLOSED
from openbell_server.domain.controls.rules import Address, OnMissing, Rule, RuleBook
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.markets.calendars import MarketCalendars

COMMANDS_MAX: Final = 200_000
EXAMPLES_MAX: Final = 100
RULES_MAX: Final = 50
WINDOW: Final = timedelta(days=7)
WINDOW_MAX: Final = timedelta(days=31)
LOOK_BACK: Final = timedelta(milliseconds=LOOK_BACK_MILLIS)
# Entries replayed before the event loop runs other tasks: a few milliseconds.
_ENTRIES_PER_TURN: Final = 64
# The version of a rule that is not stored.
_PROPOSED_VERSION: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRule:
    scope: Scope
    code: str
    parameters: Mapping[str, Any]
    mode: Mode = Mode.HARD
    on_missing: OnMissing | None = None
    symbol: str | None = None
    api_key_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BacktestRequest:
    """Which rules to test on which part of the record; without since and until, the last seven days."""

    account_id: AccountId
    rules: Sequence[ProposedRule]
    since: datetime | None = None
    until: datetime | None = None
    # True: test these rules alone. False: together with rules in force of another scope or code.
    replaces_all: bool = True
    examples_max: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtested:
    since: datetime
    until: datetime
    tally: Tally


@dataclass(frozen=True, slots=True)
class BacktestRules:
    """Evaluates proposed rules on an account's record; writes nothing."""

    accounts: AccountStore
    books: RuleBookStore
    history: HistoryStore
    brokers: Mapping[str, BrokerDefinition]
    calendars: MarketCalendars
    changes: SessionChangeStore
    cap: Cap = CAPS["backtests_at_once"]
    # Back-tests that run in this process, by organization.
    running: Counter[OrganizationId] = field(default_factory=Counter)

    async def __call__(self, caller: Principal, request: BacktestRequest) -> Backtested:
        account = await find_account(self.accounts, caller, Operation.READ_CONTROLS, request.account_id)
        rules = [self._rule(account, place, proposed) for place, proposed in enumerate(request.rules)]
        if self.running[account.organization_id] >= self.cap.limit:
            raise self.cap.refusal()
        self.running[account.organization_id] += 1
        try:
            return await self._replay(account, request, rules)
        finally:
            self.running[account.organization_id] -= 1
            if not self.running[account.organization_id]:
                del self.running[account.organization_id]

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
            raise InvalidCommand("/since", message)
        replay = Replay(
            book,
            await self.history.state_before(account, stretch),
            since=since,
            calendars=self.calendars,
            examples_max=request.examples_max,
            is_whole=stretch.is_whole,
            begins_at=stretch.begins_at,
        )
        async for page in self.history.entries(account, stretch):
            for start in range(0, len(page), _ENTRIES_PER_TURN):
                replay.take(page[start : start + _ENTRIES_PER_TURN])
                await asyncio.sleep(0)
        # Events that were deleted during the replay are missing in a part of it.
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
        try:
            parameters = checked_parameters(proposed.code, proposed.scope, proposed.parameters)
            if isinstance(parameters, SymbolList):
                parameters = parameters.respelled(self.brokers[account.broker].canonical_symbol)
            symbol = self._symbol(account, proposed)
        except InvalidCommand as refusal:
            [error] = refusal.errors
            raise InvalidCommand(f"/rules/{place}{error.pointer}", error.message) from refusal
        if Gate.ACCEPT not in CATALOGUE[proposed.code].gates:
            message = "is checked just before sending, and the record does not show what it would have decided there"
            raise InvalidCommand(f"/rules/{place}/code", message)
        if (proposed.api_key_id is not None) != (proposed.scope is Scope.KEY):
            raise InvalidCommand(f"/rules/{place}/api_key_id", "must be given for the scope key, and for no other")
        address = Address(
            organization_id=account.organization_id,
            scope=proposed.scope,
            account_id=account.id if proposed.scope in {Scope.ACCOUNT, Scope.SYMBOL} else None,
            symbol=symbol,
            api_key_id=proposed.api_key_id,
        )
        return Rule(
            code=proposed.code,
            scope=proposed.scope,
            subject=address.subject,
            symbol=symbol,
            api_key_id=proposed.api_key_id,
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
        raise InvalidCommand("/since", "must be before until, and in the past")
    if until - since > WINDOW_MAX:
        raise InvalidCommand("/since", f"must be at most {WINDOW_MAX.days} days before until")
    _require_kept(since, forgotten)
    return since, until


def _kept_since(forgotten: datetime) -> datetime:
    """The earliest start of a window that is complete, together with the hour before it."""
    return forgotten + LOOK_BACK + timedelta(microseconds=1)


def _require_kept(since: datetime, forgotten: datetime | None) -> None:
    if forgotten is not None and since < _kept_since(forgotten):
        message = (
            "must be later: events are kept for a time, and with the hour before it, some are gone;"
            f" from {_kept_since(forgotten).isoformat()} on none is"
        )
        raise InvalidCommand("/since", message)


def _place(rule: Rule) -> tuple[Scope, str, Symbol | None, str | None]:
    return rule.scope, rule.code, rule.symbol, rule.api_key_id
