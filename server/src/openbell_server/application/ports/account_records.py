"""What managing trading accounts needs from the database."""

from collections.abc import Collection, Mapping
from typing import Protocol

from openbell_server.domain.accounts import AccountChange, AccountRecord, Environment, NewAccount
from openbell_server.domain.credentials import CredentialStatus
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.principals import Principal


class AccountRecords(Protocol):
    """Accounts, as those who manage them see them; each change is made under the account's lock."""

    async def is_organization_disabled(self, organization_id: OrganizationId) -> bool | None:
        """Whether nothing of the organization may be changed now; None if there is no such organization."""

    async def add(self, principal: Principal, new: NewAccount, credential_status: CredentialStatus) -> AccountRecord:
        """Open an account."""

    async def list_after(
        self, organization_id: OrganizationId, environment: Environment | None, after: int, limit: int
    ) -> list[tuple[int, AccountRecord]]:
        """Accounts in commit order with their numbers, all or of one environment, from the one after a number."""

    async def find(self, organization_id: OrganizationId, account_id: AccountId) -> AccountRecord | None:
        """The account, if it is the organization's."""

    async def change(
        self, principal: Principal, account_id: AccountId, change: AccountChange, expected: Collection[int] | None
    ) -> AccountRecord:
        """How the account stands after the change; it must be at one of the expected versions, if any are."""

    async def note(
        self,
        principal: Principal,
        account_id: AccountId,
        operation: str,
        before: Mapping[str, object],
        after: Mapping[str, object],
    ) -> None:
        """Audit a change that is kept elsewhere."""

    async def close(self, principal: Principal, account_id: AccountId, expected: Collection[int] | None) -> bool:
        """End the account for good, unless it is at work; False if it had ended already."""
