"""Read pages of an account's log from a number or a resume token; deleted events are reported as a gap."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.events.follow_events import SYMBOLS_MAX
from openbell_server.application.events.ports import EventStore
from openbell_server.application.paging import bounded
from openbell_server.application.ports.broker import BrokerDefinition, spellings
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidParameter, Problem
from openbell_server.domain.events.account_events import AccountEvent, EventKind, gap_reason
from openbell_server.domain.events.cursors import seal, unseal
from openbell_server.domain.identifiers import AccountId, IntentId, Symbol, created_at

# A filtered page scans at most this many events, read in parts.
LOOKED_AT_MAX: Final = 2000
_PART: Final = 500
_CLOCK_SETBACK_MAX: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events are listed; events without a symbol match every symbol."""

    kinds: frozenset[EventKind] = frozenset(EventKind)
    symbols: frozenset[Symbol] = frozenset()
    intent_id: IntentId | None = None

    def passes(self, event: AccountEvent) -> bool:
        return (
            event.kind in self.kinds
            and (not self.symbols or event.symbol is None or event.symbol in self.symbols)
            and self.intent_id in (None, event.intent_id)
        )


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An event, the number of the event listed before it (or of the page's start), and the token to resume after it."""

    event: AccountEvent
    previous: int
    resume_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events in order, and how far the log was scanned."""

    events: list[ListedEvent]
    # The bounds of the log; newest is 0 if it is empty.
    oldest: int
    newest: int
    # First and last number of requested events that were deleted, the token to resume after them, and the reason.
    gap: tuple[int, int, str, str] | None
    # None on the last page.
    next_cursor: str | None
    last_cursor: str


@dataclass(frozen=True, slots=True)
class ReadEvents:
    accounts: AccountStore
    events: EventStore
    brokers: Mapping[str, BrokerDefinition]
    cursor_key: bytes

    async def wanted(
        self,
        caller: Principal,
        account_id: AccountId | None,
        kinds: frozenset[EventKind],
        symbols: Collection[str],
        intent_id: IntentId | None,
    ) -> EventFilter:
        """Check that the caller may follow the account; returns the filter with symbols as its broker spells them.

        Without an account, as any broker spells them.
        """
        brokers = [*self.brokers.values()]
        if account_id is not None:
            account = await find_account(self.accounts, caller, Operation.FOLLOW_EVENTS, account_id)
            brokers = [self.brokers[account.broker]]
        if len(symbols) > SYMBOLS_MAX:
            raise InvalidParameter("symbols", f"must be at most {SYMBOLS_MAX}")
        spelled = {symbol: spellings(brokers, symbol) for symbol in symbols}
        if not all(spelled.values()):
            raise InvalidParameter("symbols", "must be 1 to 32 of A-Z, 0-9 and . - / : _ each, with commas between")
        return EventFilter(kinds=kinds, symbols=frozenset[Symbol]().union(*spelled.values()), intent_id=intent_id)

    async def page(
        self,
        caller: Principal,
        account_id: AccountId,
        after: int | str | None,
        limit: int | None,
        wanted: EventFilter,
    ) -> EventPage:
        """Events after a number or token, or from the oldest on; a filtered page may be short although more follow."""
        floor, newest = await self.events.bounds(caller.organization_id, account_id)
        position = floor if after is None else self._position(account_id, after)
        if wanted.intent_id is not None:
            # No event of an intent is older than the intent.
            moment = created_at(wanted.intent_id) - _CLOCK_SETBACK_MAX
            first = await self.events.first_since(caller.organization_id, account_id, moment, newest)
            position = max(position, first - 1)
        gap = self._gap(account_id, position, floor, floor) if position < floor else None
        begin = previous = position = max(position, floor)
        rows, shown = bounded(limit), list[ListedEvent]()
        last = min(newest, position + LOOKED_AT_MAX)
        while position < last and len(shown) < rows:
            part = await self.events.read_after(
                caller.organization_id, account_id, position, min(_PART, last - position)
            )
            missing = (part[0].number if part else newest + 1) - 1
            if missing > position:
                if gap is not None or position > begin:
                    # The next page begins here and reports the gap.
                    break
                # They may have been pruned since the page began.
                floor, _ = await self.events.bounds(caller.organization_id, account_id)
                gap = self._gap(account_id, position, missing, floor)
                previous = position = missing
            for event in part:
                if event.number != position + 1:
                    break
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
            next_cursor=token if position < newest else None,
            last_cursor=token,
        )

    def _position(self, account_id: AccountId, after: int | str) -> int:
        if isinstance(after, int):
            return after
        position = unseal(self.cursor_key, f"events {account_id}", after)
        if position is None:
            raise Problem("invalid_cursor", "this resume token does not belong to this account")
        return position

    def _gap(self, account_id: AccountId, position: int, last: int, floor: int) -> tuple[int, int, str, str]:
        return position + 1, last, self._seal(account_id, last), gap_reason(last, floor)

    def _seal(self, account_id: AccountId, position: int) -> str:
        return seal(self.cursor_key, f"events {account_id}", position)
