"""Read an account's log page by page, from a number or a resume token; what is no longer kept is said."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from openbell_server.application.follow_events import SYMBOLS_MAX
from openbell_server.application.paging import bounded
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.events import EventStore
from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.cursors import seal, unseal
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.principals import Principal

# Where few events pass a filter, a page looks for them among so many, read in parts.
LOOKED_AT_MAX: Final = 2000
_PART: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are asked for; a symbol lets those pass that are about none."""

    kinds: frozenset[EventKind] = frozenset(EventKind)
    symbols: frozenset[Symbol] = frozenset()

    def passes(self, event: AccountEvent) -> bool:
        """Whether the event is one of them."""
        return event.kind in self.kinds and (not self.symbols or event.symbol is None or event.symbol in self.symbols)


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An event, the number of the one shown before it, or of where the page began, and where to go on after it."""

    event: AccountEvent
    previous: int
    resume_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events in order, and how far the log was looked through."""

    events: list[ListedEvent]
    # Of what is kept; the newest is 0 in an empty log.
    oldest: int
    newest: int
    # First and last number of what was asked for and is no longer kept, and the token that goes on behind it.
    gap: tuple[int, int, str] | None
    # None on the last page.
    next_token: str | None
    last_token: str


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """The log as it is kept."""

    accounts: AccountStore
    events: EventStore
    brokers: Mapping[str, BrokerDefinition]
    cursor_key: bytes

    async def wanted(
        self, caller: Principal, account_id: AccountId, kinds: frozenset[EventKind], symbols: Collection[str]
    ) -> EventFilter:
        """The filter, with symbols as the account's broker spells them, if the caller may follow the account."""
        account = await self._account(caller, account_id)
        if len(symbols) > SYMBOLS_MAX:
            raise InvalidParameter("symbols", f"must be at most {SYMBOLS_MAX}")
        spelled = {symbol: self.brokers[account.broker].canonical_symbol(symbol) for symbol in symbols}
        if None in spelled.values():
            raise InvalidParameter("symbols", "must be 1 to 32 of A-Z, 0-9 and . - / : _ each, with commas between")
        return EventFilter(kinds=kinds, symbols=frozenset(symbol for symbol in spelled.values() if symbol is not None))

    async def page(
        self,
        caller: Principal,
        account_id: AccountId,
        after: int | str | None,
        limit: int | None,
        wanted: EventFilter,
    ) -> EventPage:
        """Events after a number or a token, or from the oldest on; a page of some may be short before the last one."""
        floor, newest = await self.events.bounds(caller.organization_id, account_id)
        position = floor if after is None else self._position(account_id, after)
        gap = (position + 1, floor, self._seal(account_id, floor)) if position < floor else None
        previous = position = max(position, floor)
        rows, shown = bounded(limit), list[ListedEvent]()
        last = min(newest, position + LOOKED_AT_MAX)
        while position < last and len(shown) < rows:
            part = await self.events.read_after(
                caller.organization_id, account_id, position, min(_PART, last - position)
            )
            if not part or part[0].number != position + 1:
                # What was kept when the page began is not any more: the next page says so.
                break
            for event in part:
                position = event.number
                if wanted.passes(event):
                    shown.append(ListedEvent(event, previous, self._seal(account_id, position)))
                    previous = position
                    if len(shown) == rows:
                        break
        token = self._seal(account_id, position)
        return EventPage(
            events=shown,
            oldest=floor + 1,
            newest=newest,
            gap=gap,
            next_token=token if position < newest else None,
            last_token=token,
        )

    async def _account(self, caller: Principal, account_id: AccountId) -> TradingAccount:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.FOLLOW_EVENTS, account)
        return account

    def _position(self, account_id: AccountId, after: int | str) -> int:
        if isinstance(after, int):
            return after
        position = unseal(self.cursor_key, f"events {account_id}", after)
        if position is None:
            raise Problem("invalid_cursor", "this resume token was not given for this account")
        return position

    def _seal(self, account_id: AccountId, position: int) -> str:
        return seal(self.cursor_key, f"events {account_id}", position)
