"""Manage trading accounts: open, list, change, disable and close them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from openbell_server.application.paging import bounded, cursors_of, start_of
from openbell_server.application.ports.account_records import AccountRecords
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import AccountStore
from openbell_server.domain.accounts import AccountChange, AccountRecord, NewAccount
from openbell_server.domain.authorization import Operation, admit_to_account, require_environment
from openbell_server.domain.credentials import CredentialStatus
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class AccountPage:
    """Accounts in commit order; the cursors are as of every list."""

    accounts: list[AccountRecord]
    next_cursor: str | None
    last_cursor: str | None


def first_status(broker: BrokerDefinition) -> CredentialStatus:
    """How an account stands with its broker while it has no credential."""
    required = broker.credentials is not None and broker.credentials.required
    return CredentialStatus.MISSING if required else CredentialStatus.NOT_REQUIRED


@dataclass(frozen=True, slots=True)
class ManageAccounts:
    """The accounts of an organization; whoever calls with a key sees those of the key's environment."""

    accounts: AccountStore
    records: AccountRecords
    brokers: Mapping[str, BrokerDefinition]
    hints: Hints
    cursor_key: bytes

    async def create(self, caller: Principal, decode: Callable[[], Awaitable[NewAccount]]) -> AccountRecord:
        """Open an account."""
        if await self.records.is_organization_disabled(caller.organization_id):
            raise Problem("organization_disabled", "the organization is disabled")
        new = await decode()
        require_environment(caller, new.environment)
        broker = self.brokers.get(new.broker)
        if broker is None:
            raise InvalidCommand("broker", f"must be one of {', '.join(sorted(self.brokers))}")
        if new.environment not in broker.capabilities.environments:
            raise InvalidCommand(
                "environment", f"must be {' or '.join(sorted(broker.capabilities.environments))} at {broker.name}"
            )
        record = await self.records.add(caller, new, first_status(broker))
        self.hints.outbox_has_rows()
        return record

    async def page(self, caller: Principal, cursor: str | None, limit: int | None) -> AccountPage:
        """Accounts of the organization, the closed ones included."""
        scope = f"accounts {caller.organization_id} {caller.environment}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        if await self.records.is_organization_disabled(caller.organization_id) is None:
            raise Problem("not_found", "there is no such organization")
        found = await self.records.list_after(caller.organization_id, caller.environment, after, rows + 1)
        cursors = cursors_of(self.cursor_key, scope, cursor, [number for number, _ in found], rows)
        return AccountPage([record for _, record in found[:rows]], *cursors)

    async def show(self, caller: Principal, account_id: AccountId) -> AccountRecord:
        """One account."""
        record = await self.records.find(caller.organization_id, account_id)
        if record is None:
            raise Problem("not_found", "there is no such account")
        require_environment(caller, record.environment)
        return record

    async def change(
        self,
        caller: Principal,
        account_id: AccountId,
        decode: Callable[[], Awaitable[AccountChange]],
        expected: Collection[int] | None,
    ) -> AccountRecord:
        """How the account stands after the change; it acts at once, and on what waits to be sent as well."""
        await self._require_open(caller, account_id)
        record = await self.records.change(caller, account_id, await decode(), expected)
        self._tell(account_id)
        return record

    async def close(self, caller: Principal, account_id: AccountId, expected: Collection[int] | None) -> None:
        """End the account for good; to close it again is no change."""
        await self._require_open(caller, account_id)
        if await self.records.close(caller, account_id, expected):
            self._tell(account_id)

    def _tell(self, account_id: AccountId) -> None:
        self.hints.outbox_has_rows()
        self.hints.events_were_written([account_id])

    async def _require_open(self, caller: Principal, account_id: AccountId) -> None:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.EDIT_ACCOUNTS, account)
        if account.organization_disabled:
            raise Problem("organization_disabled", "the organization is disabled")
