"""Reads and caches rule books: all rules that can apply to commands of an account at a pair of epochs."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time
from typing import Any, ClassVar, Final

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role, transaction
from openbell_server.adapters.postgres.controls.calendars import read_session_changes
from openbell_server.adapters.postgres.controls.control_rules import decode_terms
from openbell_server.adapters.postgres.controls.symbol_controls import time_control_of
from openbell_server.domain.access.accounts import Environment, TradingAccount
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.findings import CONTROL_INPUT_UNAVAILABLE, Mode, Scope
from openbell_server.domain.controls.kinds.completed import completed
from openbell_server.domain.controls.kinds.lists import SymbolList
from openbell_server.domain.controls.kinds.times import rules_by_default, rules_of_symbol
from openbell_server.domain.controls.rules import PLATFORM_ID, Origin, Rule, RuleBook
from openbell_server.domain.controls.symbol_controls import (
    MARKET_CLOSED,
    SYMBOL_DISABLED,
    ManualControl,
    Recorded,
    TimeControl,
)
from openbell_server.domain.identifiers import AccountId, OrganizationId, Symbol
from openbell_server.domain.markets.calendars import SessionChange

BOOKS_MAX: Final = 16_384
# Per account; if there are more, the book is incomplete and an unreadable rule refuses commands.
RULES_MAX: Final = 20_000
_queries = named_queries.load("rule_books")

# Converts a broker's name and spelling of a symbol to ours; None if it is not a valid symbol.
Spell = Callable[[str, str], Symbol | None]


def _as_given(_: str, spelled: str) -> Symbol | None:
    return Symbol(spelled)


@dataclass(slots=True)
class RuleBooks:
    """An LRU cache of BOOKS_MAX rule books, each valid for a pair of epochs."""

    spell: Spell = _as_given
    _cached: OrderedDict[tuple[OrganizationId, AccountId], RuleBook] = field(default_factory=OrderedDict)

    def find(self, organization_id: OrganizationId, account_id: AccountId, epochs: tuple[int, int]) -> RuleBook | None:
        book = self._cached.get((organization_id, account_id))
        if book is None or (book.organization_epoch, book.account_epoch) != epochs:
            return None
        self._cached.move_to_end((organization_id, account_id))
        return book

    async def read(self, connection: Connection, organization_id: OrganizationId, account_id: AccountId) -> RuleBook:
        """Read the current book in the caller's transaction and cache it."""
        where = {"organization_id": organization_id, "account_id": account_id}
        account = await _queries.account_of_book(connection, **where)
        assert account is not None, "the organization has no such account"
        controls = [
            row async for row in _queries.symbol_controls_of_account(connection, **where, row_limit=RULES_MAX + 1)
        ]
        rows = _queries.rules_of_account(connection, **where, platform_id=PLATFORM_ID, row_limit=RULES_MAX + 1)
        stored = [row async for row in rows]
        # A change of a calendar starts a new epoch of every organization, so cached changes are never outdated.
        changes = await read_session_changes(connection) if _uses_calendars(controls, stored) else ()
        book = _book(account, controls, stored, changes, lambda spelled: self.spell(account["broker"], spelled))
        self._cached[organization_id, account_id] = book
        self._cached.move_to_end((organization_id, account_id))
        while len(self._cached) > BOOKS_MAX:
            self._cached.popitem(last=False)
        return book

    async def is_current(
        self, connection: Connection, organization_id: OrganizationId, account_id: AccountId, book: RuleBook
    ) -> bool:
        """Whether the epochs are still those of the book; if not, the book is removed from the cache."""
        account = await _queries.account_of_book(connection, organization_id=organization_id, account_id=account_id)
        if (account["organization_epoch"], account["account_epoch"]) == (book.organization_epoch, book.account_epoch):
            return True
        self._cached.pop((organization_id, account_id), None)
        return False


@dataclass(frozen=True, slots=True)
class PostgresRuleBookStore(PostgresStore):
    """Implements RuleBookStore."""

    books: RuleBooks = field(default_factory=RuleBooks)

    async def rule_book(self, account: TradingAccount) -> RuleBook:
        epochs = (account.organization_epoch, account.account_epoch)
        cached = self.books.find(account.organization_id, account.id, epochs)
        if cached is not None:
            return cached
        async with transaction(self.pool, self.role, account.organization_id) as connection:
            book = await self.books.read(connection, account.organization_id, account.id)
            # No lock is held here. If the rules changed during the read, the book mixes two epochs, and a receipt
            # would name an epoch that has other rules.
            if await self.books.is_current(connection, account.organization_id, account.id, book):
                return book
        return replace(book, organization_epoch=0, account_epoch=0)

    async def organization_book(self, organization_id: OrganizationId) -> RuleBook:
        async with transaction(self.pool, self.role, organization_id) as connection:
            epoch = await _queries.organization_of_book(connection, organization_id=organization_id)
            where = {"organization_id": organization_id, "account_id": None, "platform_id": PLATFORM_ID}
            found = [row async for row in _queries.rules_of_account(connection, **where, row_limit=RULES_MAX)]
        rules = [_stored_rules(row, Symbol) for row in found]
        return RuleBook(
            organization_epoch=epoch,
            account_epoch=0,
            rules=[rule for read, _ in rules for rule in read],
            unreadable=[rule for _, unread in rules for rule in unread],
        )


@dataclass(frozen=True, slots=True)
class ExecutorRuleBookStore(PostgresRuleBookStore):
    """For executors, whose login has another role."""

    role: ClassVar[Role] = Role.EXECUTION


def _uses_calendars(controls: list[asyncpg.Record], stored: list[asyncpg.Record]) -> bool:
    return any(row["code"] == MARKET_CLOSED for row in stored) or any(
        row["times"] is not None and json.loads(row["times"]).get("calendar") is not None for row in controls
    )


def _book(
    account: asyncpg.Record,
    controls: list[asyncpg.Record],
    stored: list[asyncpg.Record],
    changes: Sequence[SessionChange],
    spell: Callable[[str], Symbol | None],
) -> RuleBook:
    environment, zone = Environment(account["environment"]), account["timezone"]
    rules: list[Rule] = []
    unreadable: list[Rule] = []
    for row in controls:
        rules += _symbol_rules(account["account_id"], zone, row)
    for row in stored:
        read, unread = _stored_rules(row, spell)
        rules += read
        unreadable += unread
    rules = [completed(rule, zone, changes) for rule in rules]
    rules += rules_by_default(environment, rules)
    if max(len(controls), len(stored)) > RULES_MAX:
        unreadable.append(_rule(CONTROL_INPUT_UNAVAILABLE, Scope.PLATFORM, "", parameters=None, version=None))
    return RuleBook(
        organization_epoch=account["organization_epoch"],
        account_epoch=account["account_epoch"],
        rules=tuple(rules),
        unreadable=tuple(unreadable),
        is_watched_only=environment is Environment.PAPER and account["paper_enforcement"] == "SHADOW",
    )


def _rule(
    code: str,
    scope: Scope,
    subject: str,
    *,
    parameters: object,
    version: int | None,
    symbol: Symbol | None = None,
    api_key_id: str | None = None,
) -> Rule:
    return Rule(
        code=code,
        scope=scope,
        subject=subject,
        symbol=symbol,
        api_key_id=api_key_id,
        parameters=parameters,
        mode=Mode.HARD,
        on_missing=None,
        version=version,
    )


def _symbol_rules(account_id: AccountId, zone: str, row: asyncpg.Record) -> Iterator[Rule]:
    symbol = row["symbol"]
    if row["manual_version"] is not None:
        manual = ManualControl(manually_disabled=row["manually_disabled"], manual_reason=row["manual_reason"])
        yield _rule(
            SYMBOL_DISABLED,
            Scope.SYMBOL,
            f"{account_id} {symbol}",
            parameters=manual,
            version=row["manual_version"],
            symbol=symbol,
        )
    if row["times"] is not None:
        yield from rules_of_symbol(account_id, zone, symbol, _time_control(json.loads(row["times"])))


def _time_control(facts: dict[str, Any]) -> Recorded[TimeControl]:
    edges = {name: facts[name] and time.fromisoformat(facts[name]) for name in ("trading_start", "trading_end")}
    return Recorded(
        control=time_control_of(facts | edges),
        version=facts["version"],
        created_at=datetime.fromisoformat(facts["created_at"]),
        updated_at=datetime.fromisoformat(facts["updated_at"]),
    )


def _stored_rules(row: asyncpg.Record, spell: Callable[[str], Symbol | None]) -> tuple[list[Rule], list[Rule]]:
    """The rules to evaluate for a stored rule, and its unreadable ones.

    A stored rule with an override becomes two rules: the override applies until it expires, the other from then on.
    """
    expires_at: datetime | None = row["override_expires_at"]
    terms = [(row["terms"], expires_at, None), (row["override_terms"], None, expires_at)]
    read, unread = [], []
    for text, applies_from, applies_until in terms:
        if text is None:
            continue
        rule = replace(_addressed(row), applies_from=applies_from, applies_until=applies_until)
        try:
            read.append(_with_terms(rule, text, spell))
        except Exception:  # noqa: BLE001 - an unreadable rule must refuse, whatever the error
            unread.append(rule)
    return read, unread


def _addressed(row: asyncpg.Record) -> Rule:
    scope, subject = Scope(row["scope"]), row["subject"]
    rule = _rule(
        row["code"],
        scope,
        subject,
        parameters=None,
        version=row["version"],
        symbol=Symbol(subject.rpartition(" ")[2]) if scope is Scope.SYMBOL else None,
        api_key_id=subject if scope is Scope.KEY else None,
    )
    principal = row["principal_type"], row["principal_id"]
    return replace(rule, origin=Origin(principal=principal, reason=row["reason"], updated_at=row["updated_at"]))


def _with_terms(rule: Rule, text: str, spell: Callable[[str], Symbol | None]) -> Rule:
    terms = decode_terms(text)
    parameters = CATALOGUE[rule.code].decode(terms.parameters)
    if isinstance(parameters, SymbolList):
        parameters = parameters.respelled(spell)
    return replace(rule, mode=terms.mode, on_missing=terms.on_missing, parameters=parameters)
