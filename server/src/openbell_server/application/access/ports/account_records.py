"""Trading accounts in the database."""

from collections.abc import Collection, Mapping
from typing import Protocol

from openbell_server.domain.access.accounts import AccountChange, AccountRecord, Environment, NewAccount, TradingAccount
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.identifiers import AccountId, OrganizationId


class AccountRecords(Protocol):
    """Accounts for those who manage them; each change is made under the account's lock."""

    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool | None:
        """None if there is no such organization."""

    async def add(
        self, principal: Principal, new: NewAccount, credential_status: CredentialStatus
    ) -> AccountRecord: ...

    async def list_after(
        self,
        organization_id: OrganizationId,
        environment: Environment | None,
        account_ids: Collection[AccountId] | None,
        after: int,
        limit: int,
    ) -> list[tuple[int, AccountRecord]]:
        """Accounts with their numbers in commit order, beginning after a number; None does not filter."""

    async def find(self, organization_id: OrganizationId, account_id: AccountId) -> AccountRecord | None:
        """None unless the account belongs to the organization."""

    async def change(
        self, principal: Principal, account_id: AccountId, change: AccountChange, expected: Collection[int] | None
    ) -> AccountRecord:
        """The changed account; raises Problem unless its version is one of `expected` (None accepts any)."""

    async def note(
        self,
        principal: Principal,
        account_id: AccountId,
        operation: str,
        before: Mapping[str, object],
        after: Mapping[str, object],
    ) -> None:
        """Audit a change that is stored elsewhere."""

    async def close(self, principal: Principal, account_id: AccountId, expected: Collection[int] | None) -> bool:
        """Close the account permanently, unless it has open work; False if it was closed before."""


class AccountStore(Protocol):
    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        """None unless the account belongs to the organization."""
