"""Read every rule and switch in force at a place, and the controls of a symbol there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from openbell_server.application.access.find_account import find_account
from openbell_server.application.controls.ports.rules import RuleBookStore
from openbell_server.application.controls.set_rules import Place, SetRules
from openbell_server.application.controls.set_symbol_controls import SetSymbolControls, TimesNow
from openbell_server.application.controls.symbols import symbol_at
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.effective import EffectiveRule, effective_rules
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import RuleBook
from openbell_server.domain.controls.symbol_controls import ManualControl, Recorded
from openbell_server.domain.identifiers import AccountId, Symbol


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveControls:
    rules: Page[EffectiveRule]
    # Whether refusals are recorded and not enforced on the account.
    is_watched_only: bool
    # The controls of the symbol that was named, with its account.
    manual: tuple[AccountId, Symbol, Recorded[ManualControl]] | None = None
    times: tuple[AccountId, TimesNow] | None = None


@dataclass(frozen=True, slots=True)
class ReadEffectiveControls:
    rules: SetRules
    symbols: SetSymbolControls
    books: RuleBookStore
    clock: Callable[[], Awaitable[datetime]]

    async def __call__(
        self, caller: Principal, place: Place, cursor: str | None, limit: int | None
    ) -> EffectiveControls:
        """Of the organization, of an account with all of its symbols, or of one symbol; and of a key if it is named."""
        key_id = None if place.api_key_id is None else str(place.api_key_id)
        if place.account_id is None or place.api_key_id is not None:
            above = Place(scope=Scope.KEY if key_id else Scope.ORGANIZATION, api_key_id=place.api_key_id)
            await self.rules.enter(caller, above, Operation.READ_CONTROLS)
        account, symbol, book = await self._book(caller, place)
        found = effective_rules(book, symbol, key_id, await self.clock())
        # Rows have no numbers of their own, so a cursor is of one version of the rules.
        epochs = f"{book.organization_epoch} {book.account_epoch}"
        of = f"controls in force {caller.organization_id} {place.account_id} {symbol} {key_id} {epochs}"
        after, rows = start_of(self.rules.cursor_key, of, cursor), bounded(limit)
        numbered = [*enumerate(found, 1)][after : after + rows + 1]
        page = page_of(self.rules.cursor_key, of, cursor, rows, numbered)
        if account is None or symbol is None:
            return EffectiveControls(rules=page, is_watched_only=book.is_watched_only)
        manual, times = await self.symbols.find(account, symbol)
        return EffectiveControls(
            rules=page,
            is_watched_only=book.is_watched_only,
            manual=None if manual is None else (account.id, symbol, manual),
            times=None if times is None else (account.id, times),
        )

    async def _book(self, caller: Principal, place: Place) -> tuple[TradingAccount | None, Symbol | None, RuleBook]:
        if place.account_id is None:
            return None, None, await self.books.organization_book(caller.organization_id)
        account = await find_account(self.rules.accounts, caller, Operation.READ_CONTROLS, place.account_id)
        symbol = None if place.symbol is None else symbol_at(self.rules.brokers, account, place.symbol)
        return account, symbol, await self.books.rule_book(account)
