"""Set and read the controls of a symbol on an account: a manual switch, and trading times."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.ports.calendars import SessionChangeStore
from openbell_server.application.controls.ports.symbol_controls import ControlStore
from openbell_server.application.controls.symbols import symbol_at
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.kinds.times import MarketSession, OpenTimes, open_times
from openbell_server.domain.controls.symbol_controls import (
    TIME_FIELDS,
    ManualControl,
    Recorded,
    TimeControl,
    checked_manual,
    patch_time,
)
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.markets.calendars import MarketCalendars, Session


@dataclass(frozen=True, slots=True)
class TimePatch:
    """The fields that a change of the time control sets, and those it removes."""

    change: TimeControl
    clear: Sequence[str]


@dataclass(frozen=True, slots=True)
class TimesNow:
    symbol: Symbol
    recorded: Recorded[TimeControl]
    timezone: str
    times: OpenTimes


@dataclass(frozen=True, slots=True)
class SetSymbolControls:
    """The controls of a symbol; spellings of it are resolved by the account's broker."""

    accounts: AccountStore
    controls: ControlStore
    brokers: Mapping[str, BrokerDefinition]
    calendars: MarketCalendars
    changes: SessionChangeStore
    hints: Hints

    async def put_manual(
        self, caller: Principal, account_id: AccountId, spelled: str, decode: Callable[[], Awaitable[ManualControl]]
    ) -> tuple[Symbol, Recorded[ManualControl]]:
        _, symbol = await self._enter(caller, account_id, spelled)
        control = checked_manual(await decode())
        recorded = await self.controls.set_manual(caller.organization_id, account_id, symbol, control, caller)
        self.hints.events_were_written([account_id])
        return symbol, recorded

    async def patch_time(
        self, caller: Principal, account_id: AccountId, spelled: str, decode: Callable[[], Awaitable[TimePatch]]
    ) -> TimesNow:
        """Create or change the time control; the result is checked under the account's lock."""
        account, symbol = await self._enter(caller, account_id, spelled)
        patch = await decode()

        def change(current: TimeControl) -> TimeControl:
            return patch_time(current, patch.change, patch.clear)

        named = [name for name in TIME_FIELDS if getattr(patch.change, name) is not None]
        recorded = await self.controls.change_time(caller.organization_id, account_id, symbol, change, caller, named)
        self.hints.events_were_written([account_id])
        return await self._times(account, symbol, recorded, recorded.updated_at)

    async def find(
        self, account: TradingAccount, symbol: Symbol
    ) -> tuple[Recorded[ManualControl] | None, TimesNow | None]:
        """Each None if it was never set."""
        found = await self.controls.find_controls(account.organization_id, account.id, symbol)
        if found is None or found.controls.time is None:
            return None if found is None else found.controls.manual, None
        return found.controls.manual, await self._times(account, symbol, found.controls.time, found.now)

    async def _times(
        self, account: TradingAccount, symbol: Symbol, recorded: Recorded[TimeControl], now: datetime
    ) -> TimesNow:
        control = recorded.control
        hours, market = None, None
        if control.calendar is not None:
            changes = await self.changes.session_changes()
            session = control.session or Session.REGULAR
            hours = MarketSession(calendar=control.calendar, session=session, changes=changes)
            market = self.calendars.find(control.calendar)
        window = control.window(account.timezone)
        times = open_times(window, hours, market, now)
        return TimesNow(symbol, recorded, control.timezone or account.timezone, times)

    async def _enter(self, caller: Principal, account_id: AccountId, spelled: str) -> tuple[TradingAccount, Symbol]:
        account = await find_account(self.accounts, caller, Operation.EDIT_CONTROLS, account_id)
        return account, symbol_at(self.brokers, account, spelled)
