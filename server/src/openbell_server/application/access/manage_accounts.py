"""Manage trading accounts: open, list, change, disable and close them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account, require_organization
from openbell_server.application.access.ports.account_records import AccountRecords, AccountStore
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.access.accounts import AccountChange, AccountRecord, NewAccount, known_brokers
from openbell_server.domain.access.authorization import Operation, require_environment, require_listed
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId


def first_status(broker: BrokerDefinition) -> CredentialStatus:
    """The credential status of an account without a credential."""
    required = broker.credentials is not None and broker.credentials.required
    return CredentialStatus.MISSING if required else CredentialStatus.NOT_REQUIRED


@dataclass(frozen=True, slots=True)
class ManageAccounts:
    """The accounts of an organization; an API key sees only those of its environment."""

    accounts: AccountStore
    records: AccountRecords
    brokers: Mapping[str, BrokerDefinition]
    hints: Hints
    cursor_key: bytes

    async def create(self, caller: Principal, decode: Callable[[], Awaitable[NewAccount]]) -> AccountRecord:
        if await self.records.is_organization_disabled(caller.organization_id):
            raise Problem("organization_disabled", "the organization is disabled")
        new = await decode()
        require_environment(caller, new.environment)
        broker = self.brokers.get(new.broker)
        if broker is None:
            raise InvalidCommand("broker", f"must be one of {', '.join(known_brokers(self.brokers))}")
        if new.environment not in broker.capabilities.environments:
            raise InvalidCommand(
                "environment", f"must be {' or '.join(sorted(broker.capabilities.environments))} at {broker.name}"
            )
        record = await self.records.add(caller, new, first_status(broker))
        self.hints.outbox_has_rows()
        return record

    async def page(self, caller: Principal, cursor: str | None, limit: int | None) -> Page[AccountRecord]:
        """Accounts of the organization, closed ones included."""
        scope = f"accounts {caller.organization_id} {caller.environment}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        await require_organization(self.records, caller)
        visible = caller.environment, caller.account_ids
        found = await self.records.list_after(caller.organization_id, *visible, after, rows + 1)
        return page_of(self.cursor_key, scope, cursor, rows, found)

    async def show(self, caller: Principal, account_id: AccountId) -> AccountRecord:
        record = await self.records.find(caller.organization_id, account_id)
        if record is None:
            raise Problem("not_found", "there is no such account")
        require_listed(caller, account_id)
        require_environment(caller, record.environment)
        return record

    async def change(
        self,
        caller: Principal,
        account_id: AccountId,
        decode: Callable[[], Awaitable[AccountChange]],
        expected: Collection[int] | None,
    ) -> AccountRecord:
        """The changed account; the change also applies to actions that are already queued."""
        await find_account(self.accounts, caller, Operation.EDIT_ACCOUNTS, account_id)
        record = await self.records.change(caller, account_id, await decode(), expected)
        self._notify(account_id)
        return record

    async def close(self, caller: Principal, account_id: AccountId, expected: Collection[int] | None) -> None:
        """Close the account permanently; closing it again changes nothing."""
        await find_account(self.accounts, caller, Operation.EDIT_ACCOUNTS, account_id)
        if await self.records.close(caller, account_id, expected):
            self._notify(account_id)

    def _notify(self, account_id: AccountId) -> None:
        self.hints.outbox_has_rows()
        self.hints.events_were_written([account_id])
