"""Recheck the access of followers several times a second, once for all streams of a credential."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from openbell_server.application.access.authenticate import Authenticate, Credential
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.events.ports import FollowedAccounts
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import RULES, Operation, admit, admit_to_account
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId

# The interval of the checks and the age of the data they may use: together less than a second.
ACCESS_SECONDS: Final = 0.4
# Accounts that one stream of an organization follows, at most.
ACCOUNTS_MAX: Final = 1000
# Called for every recheck; two of the same credential are equal.
Enter = Callable[[], Awaitable[Principal]]
_Key = tuple[Enter, AccountId | None]


@dataclass(frozen=True, slots=True)
class Entrance:
    """Authenticates a credential for the organization that the request named."""

    authenticate: Authenticate = field(compare=False)
    credential: Credential
    organization: str | None

    async def __call__(self) -> Principal:
        caller = await self.authenticate(self.credential, ACCESS_SECONDS)
        return admit(caller, Operation.FOLLOW_EVENTS, self.organization)


class Access:
    def __init__(self, principal: Principal, account_ids: Sequence[AccountId]) -> None:
        self.principal = principal
        # The current accounts; an organization may get new ones.
        self.account_ids = account_ids
        self.streams = 0
        # The last or running check.
        self.looking: asyncio.Future[None] | None = None
        # The reason if it ended.
        self.ended: Exception | None = None
        # Called once with the reason when it ends.
        self.interrupts: set[Callable[[Exception], None]] = set()

    def check(self) -> None:
        """Raises the reason if it has ended."""
        if self.ended is not None:
            raise self.ended

    def end(self, error: Exception) -> None:
        """Notify all streams that use it."""
        self.ended = error
        for interrupt in tuple(self.interrupts):
            interrupt(error)


class RecheckAccess:
    def __init__(self, accounts: AccountStore, followed: FollowedAccounts) -> None:
        self._accounts = accounts
        self._followed = followed
        self._open: dict[_Key, Access] = {}
        self._watching: asyncio.Task[None] | None = None
        # Account reads in progress, shared by concurrent checks.
        self._reading: dict[tuple[OrganizationId, AccountId], asyncio.Future[TradingAccount | None]] = {}

    @contextlib.asynccontextmanager
    async def access(self, enter: Enter, account_id: AccountId | None) -> AsyncIterator[Access]:
        """The access that all streams of the caller to the account share; None means all accounts of its organization.

        Raises Problem if the caller may not follow.
        """
        key = (enter, account_id)
        if key not in self._open:
            found = await self._enter(enter, account_id)
            self._open.setdefault(key, Access(*found))
        access = self._open[key]
        access.streams += 1
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())
        try:
            yield access
        finally:
            access.streams -= 1
            if not access.streams:
                self._close(key, access)

    async def _watch(self) -> None:
        # All checks start at the same time, so that their reads are batched.
        while self._open:
            await asyncio.sleep(ACCESS_SECONDS)
            for key, access in self._open.items():
                # A slow check does not delay the others.
                if access.looking is None or access.looking.done():
                    access.looking = asyncio.ensure_future(self._look(key, access))

    async def _look(self, key: _Key, access: Access) -> None:
        try:
            access.principal, access.account_ids = await self._enter(*key)
        except Exception as error:  # noqa: BLE001 - the streams raise it
            self._close(key, access)
            access.end(error)

    def _close(self, key: _Key, access: Access) -> None:
        if self._open.get(key) is access:
            del self._open[key]

    async def _enter(self, enter: Enter, account_id: AccountId | None) -> tuple[Principal, Sequence[AccountId]]:
        caller = await enter()
        if account_id is None:
            return caller, await self._all_accounts(caller)
        account = await self._find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.FOLLOW_EVENTS, account)
        # A disabled account is not refused: its working orders may still fill, and followers must receive that.
        _refuse_disabled(account.organization_disabled)
        return caller, (account_id,)

    async def _find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        where = (organization_id, account_id)
        if where not in self._reading:
            self._reading[where] = reading = asyncio.ensure_future(self._accounts.find_account(*where))
            reading.add_done_callback(lambda _: self._reading.pop(where))
        return await asyncio.shield(self._reading[where])

    async def _all_accounts(self, caller: Principal) -> Sequence[AccountId]:
        # Following needs no entitlement, so none is checked here.
        assert RULES[Operation.FOLLOW_EVENTS].entitlement is None
        visible = caller.environment, caller.account_ids
        found = await self._followed.list_followed(caller.organization_id, *visible, ACCOUNTS_MAX + 1)
        if found is None:
            raise Problem("not_found", "there is no such organization")
        _refuse_disabled(found.organization_disabled)
        if len(found.account_ids) > ACCOUNTS_MAX:
            raise Problem("too_many_accounts", f"one stream follows at most {ACCOUNTS_MAX} accounts")
        return found.account_ids


def _refuse_disabled(organization_disabled: bool) -> None:
    if organization_disabled:
        raise Problem("organization_disabled", "the organization is disabled")
