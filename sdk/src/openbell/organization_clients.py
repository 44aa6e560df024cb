"""Accounts and keys of the organization, and what operators ask, as both clients do it."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Unpack

from openbell import account_requests, key_requests, operation_requests
from openbell.account_requests import Account, AccountChanges, AccountOptions, AccountPage, Credential, Environment
from openbell.connection import Connection
from openbell.key_requests import ApiKey, ApiKeyChanges, ApiKeyPage, ValidKey
from openbell.operation_requests import Health, Organization, Outboxes, OutboxHealth
from openbell.plans import AsyncCarryOut, CarryOut, ask, ask_once, async_pages, fetch, fetch_once, pages


class Accounts:
    """The trading accounts of the organization, and their broker credentials."""

    def __init__(self, carry_out: CarryOut, connection: Connection) -> None:
        """For the client; an account that is not named is the connection's."""
        self._carry_out = carry_out
        self._connection = connection

    def create(self, name: str, *, broker: str, environment: Environment, **options: Unpack[AccountOptions]) -> Account:
        """Open an account at a broker."""
        return self._carry_out(fetch_once(account_requests.create_account(name, broker, environment, options), Account))

    def list(self) -> Iterator[Account]:
        """Every account that the caller may see, the newest first."""
        for page in pages(self._carry_out, account_requests.accounts(), AccountPage):
            yield from page.data

    def show(self, account_id: str | None = None) -> Account:
        """One account."""
        return self._carry_out(fetch(account_requests.account(self._connection, account_id), Account))

    def change(self, account_id: str | None = None, **changes: Unpack[AccountChanges]) -> Account:
        """Rename, disable, enable or otherwise change an account; what is left out stays."""
        return self._carry_out(fetch(account_requests.change_account(self._connection, account_id, changes), Account))

    def close(self, account_id: str | None = None, *, if_version: int | None = None) -> None:
        """Close an account for good; refused while it has something to do."""
        self._carry_out(ask(account_requests.close_account(self._connection, account_id, if_version)))

    def set_credential(
        self,
        fields: Mapping[str, str],
        *,
        account_id: str | None = None,
        expires_at: datetime | None = None,
        if_version: int | None = None,
    ) -> Credential:
        """Set or replace what the account signs in with at its broker; the fields are the broker's."""
        request = account_requests.put_credential(self._connection, account_id, fields, expires_at, if_version)
        return self._carry_out(fetch(request, Credential))

    def credential(self, account_id: str | None = None) -> Credential:
        """How the credential stands; nobody reads its secrets back."""
        return self._carry_out(fetch(account_requests.credential(self._connection, account_id), Credential))

    def verify_credential(self, account_id: str | None = None) -> Credential:
        """Have the broker asked about the credential now."""
        return self._carry_out(fetch(account_requests.verify_credential(self._connection, account_id), Credential))

    def remove_credential(self, account_id: str | None = None, *, if_version: int | None = None) -> None:
        """Remove the credential; its secrets are destroyed."""
        self._carry_out(ask(account_requests.delete_credential(self._connection, account_id, if_version)))


class ApiKeys:
    """The API keys of the organization."""

    def __init__(self, carry_out: CarryOut, connection: Connection) -> None:
        """For the client."""
        self._carry_out = carry_out
        self._connection = connection

    def create(
        self, name: str, *, environment: Environment, permissions: Sequence[str], expires_at: datetime | None = None
    ) -> ApiKey:
        """Make a key; what authenticates is told here and never again."""
        request = key_requests.create_api_key(name, environment, permissions, expires_at)
        return self._carry_out(fetch_once(request, ApiKey))

    def list(self) -> Iterator[ApiKey]:
        """Every key, the newest first."""
        for page in pages(self._carry_out, key_requests.api_keys(), ApiKeyPage):
            yield from page.data

    def show(self, api_key_id: str) -> ApiKey:
        """One key."""
        return self._carry_out(fetch(key_requests.api_key(api_key_id), ApiKey))

    def change(self, api_key_id: str, **changes: Unpack[ApiKeyChanges]) -> ApiKey:
        """Rename, disable or enable a key; it acts everywhere within a second."""
        return self._carry_out(fetch(key_requests.change_api_key(api_key_id, changes), ApiKey))

    def revoke(self, api_key_id: str) -> None:
        """End a key for good."""
        self._carry_out(ask(key_requests.revoke_api_key(api_key_id)))

    def validate(self, api_key: str | None = None) -> ValidKey:
        """Whose key this is, or that of this client; NotAuthenticated if it is nobody's."""
        return self._carry_out(fetch(key_requests.validate_api_key(self._connection, api_key), ValidKey))


class Operations:
    """What operators and sign-in services ask."""

    def __init__(self, carry_out: CarryOut) -> None:
        """For the client."""
        self._carry_out = carry_out

    def health(self) -> Health:
        """Whether the API serves."""
        return self._carry_out(fetch(operation_requests.health(), Health))

    def outboxes(self) -> Outboxes:
        """How all queues stand, in a word and in numbers."""
        return self._carry_out(fetch(operation_requests.outboxes(), Outboxes))

    def outbox_health(self) -> OutboxHealth:
        """How the queue of account changes stands."""
        return self._carry_out(fetch(operation_requests.outbox_health(), OutboxHealth))

    def organization(self, provider: str, provider_id: str) -> Organization:
        """The organization that an identity provider calls so."""
        return self._carry_out(fetch(operation_requests.organization(provider, provider_id), Organization))

    def delete_me(self) -> None:
        """Delete the user who asks, for good."""
        self._carry_out(ask_once(operation_requests.delete_me()))


class AsyncAccounts:
    """The trading accounts of the organization, and their broker credentials, awaited."""

    def __init__(self, carry_out: AsyncCarryOut, connection: Connection) -> None:
        """For the client; an account that is not named is the connection's."""
        self._carry_out = carry_out
        self._connection = connection

    async def create(
        self, name: str, *, broker: str, environment: Environment, **options: Unpack[AccountOptions]
    ) -> Account:
        """Open an account at a broker."""
        return await self._carry_out(
            fetch_once(account_requests.create_account(name, broker, environment, options), Account)
        )

    async def list(self) -> AsyncIterator[Account]:
        """Every account that the caller may see, the newest first."""
        async for page in async_pages(self._carry_out, account_requests.accounts(), AccountPage):
            for each in page.data:
                yield each

    async def show(self, account_id: str | None = None) -> Account:
        """One account."""
        return await self._carry_out(fetch(account_requests.account(self._connection, account_id), Account))

    async def change(self, account_id: str | None = None, **changes: Unpack[AccountChanges]) -> Account:
        """Rename, disable, enable or otherwise change an account; what is left out stays."""
        return await self._carry_out(
            fetch(account_requests.change_account(self._connection, account_id, changes), Account)
        )

    async def close(self, account_id: str | None = None, *, if_version: int | None = None) -> None:
        """Close an account for good; refused while it has something to do."""
        await self._carry_out(ask(account_requests.close_account(self._connection, account_id, if_version)))

    async def set_credential(
        self,
        fields: Mapping[str, str],
        *,
        account_id: str | None = None,
        expires_at: datetime | None = None,
        if_version: int | None = None,
    ) -> Credential:
        """Set or replace what the account signs in with at its broker; the fields are the broker's."""
        request = account_requests.put_credential(self._connection, account_id, fields, expires_at, if_version)
        return await self._carry_out(fetch(request, Credential))

    async def credential(self, account_id: str | None = None) -> Credential:
        """How the credential stands; nobody reads its secrets back."""
        return await self._carry_out(fetch(account_requests.credential(self._connection, account_id), Credential))

    async def verify_credential(self, account_id: str | None = None) -> Credential:
        """Have the broker asked about the credential now."""
        return await self._carry_out(
            fetch(account_requests.verify_credential(self._connection, account_id), Credential)
        )

    async def remove_credential(self, account_id: str | None = None, *, if_version: int | None = None) -> None:
        """Remove the credential; its secrets are destroyed."""
        await self._carry_out(ask(account_requests.delete_credential(self._connection, account_id, if_version)))


class AsyncApiKeys:
    """The API keys of the organization, awaited."""

    def __init__(self, carry_out: AsyncCarryOut, connection: Connection) -> None:
        """For the client."""
        self._carry_out = carry_out
        self._connection = connection

    async def create(
        self, name: str, *, environment: Environment, permissions: Sequence[str], expires_at: datetime | None = None
    ) -> ApiKey:
        """Make a key; what authenticates is told here and never again."""
        request = key_requests.create_api_key(name, environment, permissions, expires_at)
        return await self._carry_out(fetch_once(request, ApiKey))

    async def list(self) -> AsyncIterator[ApiKey]:
        """Every key, the newest first."""
        async for page in async_pages(self._carry_out, key_requests.api_keys(), ApiKeyPage):
            for each in page.data:
                yield each

    async def show(self, api_key_id: str) -> ApiKey:
        """One key."""
        return await self._carry_out(fetch(key_requests.api_key(api_key_id), ApiKey))

    async def change(self, api_key_id: str, **changes: Unpack[ApiKeyChanges]) -> ApiKey:
        """Rename, disable or enable a key; it acts everywhere within a second."""
        return await self._carry_out(fetch(key_requests.change_api_key(api_key_id, changes), ApiKey))

    async def revoke(self, api_key_id: str) -> None:
        """End a key for good."""
        await self._carry_out(ask(key_requests.revoke_api_key(api_key_id)))

    async def validate(self, api_key: str | None = None) -> ValidKey:
        """Whose key this is, or that of this client; NotAuthenticated if it is nobody's."""
        return await self._carry_out(fetch(key_requests.validate_api_key(self._connection, api_key), ValidKey))


class AsyncOperations:
    """What operators and sign-in services ask, awaited."""

    def __init__(self, carry_out: AsyncCarryOut) -> None:
        """For the client."""
        self._carry_out = carry_out

    async def health(self) -> Health:
        """Whether the API serves."""
        return await self._carry_out(fetch(operation_requests.health(), Health))

    async def outboxes(self) -> Outboxes:
        """How all queues stand, in a word and in numbers."""
        return await self._carry_out(fetch(operation_requests.outboxes(), Outboxes))

    async def outbox_health(self) -> OutboxHealth:
        """How the queue of account changes stands."""
        return await self._carry_out(fetch(operation_requests.outbox_health(), OutboxHealth))

    async def organization(self, provider: str, provider_id: str) -> Organization:
        """The organization that an identity provider calls so."""
        return await self._carry_out(fetch(operation_requests.organization(provider, provider_id), Organization))

    async def delete_me(self) -> None:
        """Delete the user who asks, for good."""
        await self._carry_out(ask_once(operation_requests.delete_me()))
