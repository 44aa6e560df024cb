"""Set and read the controls of a symbol on an account: a manual switch, and trading times."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.calendars import SessionChangeStore
from openbell_server.application.ports.controls import ControlStore
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.control_times import MarketSession, OpenTimes, open_times
from openbell_server.domain.controls import (
    ManualControl,
    Recorded,
    TimeControl,
    checked_manual,
    patch_time,
)
from openbell_server.domain.errors import FieldProblem, Problem
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.market_calendars import MarketCalendars, Session
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class TimePatch:
    """What a change of the time control sets, and which fields it removes."""

    change: TimeControl
    clear: Sequence[str]


@dataclass(frozen=True, slots=True)
class TimesNow:
    """The time control of a symbol, the zone that its times are in, and whether it is open."""

    symbol: Symbol
    recorded: Recorded[TimeControl]
    timezone: str
    times: OpenTimes


@dataclass(frozen=True, slots=True)
class SetSymbolControls:
    """The controls of a symbol; every spelling of it at the account's broker is the one symbol."""

    accounts: AccountStore
    controls: ControlStore
    brokers: Mapping[str, BrokerDefinition]
    calendars: MarketCalendars
    changes: SessionChangeStore
    hints: Hints

    async def put_manual(
        self, caller: Principal, account_id: AccountId, spelled: str, decode: Callable[[], Awaitable[ManualControl]]
    ) -> tuple[Symbol, Recorded[ManualControl]]:
        """Create or replace the manual control."""
        _, symbol = await self._enter(caller, Operation.EDIT_CONTROLS, account_id, spelled)
        control = checked_manual(await decode())
        recorded = await self.controls.set_manual(caller.organization_id, account_id, symbol, control, caller)
        self.hints.events_were_written([account_id])
        return symbol, recorded

    async def patch_time(
        self, caller: Principal, account_id: AccountId, spelled: str, decode: Callable[[], Awaitable[TimePatch]]
    ) -> TimesNow:
        """Create or change the time control; what results is judged with nobody else changing it."""
        account, symbol = await self._enter(caller, Operation.EDIT_CONTROLS, account_id, spelled)
        patch = await decode()

        def change(current: TimeControl) -> TimeControl:
            return patch_time(current, patch.change, patch.clear)

        recorded = await self.controls.change_time(caller.organization_id, account_id, symbol, change, caller)
        self.hints.events_were_written([account_id])
        return await self._times(account, symbol, recorded, recorded.updated_at)

    async def read_manual(
        self, caller: Principal, account_id: AccountId, spelled: str
    ) -> tuple[Symbol, Recorded[ManualControl]]:
        """The manual control, if one was ever set."""
        _, symbol = await self._enter(caller, Operation.READ_CONTROLS, account_id, spelled)
        found = await self.controls.find_controls(caller.organization_id, account_id, symbol)
        if found is None or found.controls.manual is None:
            raise Problem("not_found", "no manual control is set for the symbol")
        return symbol, found.controls.manual

    async def read_time(self, caller: Principal, account_id: AccountId, spelled: str) -> TimesNow:
        """The time control, if one was ever set."""
        account, symbol = await self._enter(caller, Operation.READ_CONTROLS, account_id, spelled)
        found = await self.controls.find_controls(caller.organization_id, account_id, symbol)
        if found is None or found.controls.time is None:
            raise Problem("not_found", "no time control is set for the symbol")
        return await self._times(account, symbol, found.controls.time, found.now)

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

    async def _enter(
        self, caller: Principal, operation: Operation, account_id: AccountId, spelled: str
    ) -> tuple[TradingAccount, Symbol]:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, operation, account)
        if operation is Operation.EDIT_CONTROLS and account.organization_disabled:
            raise Problem("organization_disabled", "the organization is disabled")
        return account, self._symbol(account, spelled)

    def _symbol(self, account: TradingAccount, spelled: str) -> Symbol:
        symbol = self.brokers[account.broker].canonical_symbol(spelled)
        if symbol is None:
            message = "must be 1 to 32 of A-Z, 0-9 and . - / : _"
            raise Problem("invalid_parameter", f"symbol {message}", (FieldProblem("/symbol", "invalid", message),))
        return symbol
