# Generated from openbell/async_client/organization.py by make generate. Do not edit.
"""Calls about accounts, API keys and operations."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Unpack

from openbell.access.accounts import Account, AccountChanges, AccountOptions, Credential, Environment
from openbell.access.api_keys import AgentBudget, ApiKey, ApiKeyChanges, ValidKey, WorstCase
from openbell.access.audit import AuditEntry
from openbell.access.operations import Health, Me, Organization, Outboxes, OutboxHealth
from openbell.client.calls import Calls
from openbell.errors import NotConfigured
from openbell.models import PageOf
from openbell.requests import Request, change, if_match, page, path_of, text_of, without_none


class Accounts(Calls):
    """The trading accounts of the organization and their broker credentials. Default account: the client's."""

    def create(self, name: str, *, broker: str, environment: Environment, **options: Unpack[AccountOptions]) -> Account:
        """Open an account at a broker. It is sent once: after a lost reply, list the accounts before a retry."""
        body = {"name": name, "broker": broker, "environment": environment, **without_none(options)}
        return self._session.fetch_once(change("POST", path_of("accounts"), body), Account)

    def list(self) -> Iterator[Account]:
        """List the accounts that the caller may read, the newest first."""
        return self._session.items(page(path_of("accounts")), PageOf[Account])

    def show(self, account_id: str | None = None) -> Account:
        """Read one account."""
        return self._session.get(Account, self._connection.path(account_id))

    def change(self, account_id: str | None = None, **changes: Unpack[AccountChanges]) -> Account:
        """Change an account, for example disable it. Fields that are left out stay.

        With `if_version` it raises Conflict unless the account has that version.
        """
        body = {name: value for name, value in changes.items() if name != "if_version"}
        request = change("PATCH", self._connection.path(account_id), body, if_version=changes.get("if_version"))
        return self._session.fetch(request, Account)

    def close(self, account_id: str | None = None, *, if_version: int | None = None) -> None:
        """Close an account permanently. Raises Conflict while it has open orders or queued commands."""
        self._session.request(if_match(Request("DELETE", self._connection.path(account_id)), if_version))

    def set_credential(
        self,
        fields: Mapping[str, str],
        *,
        account_id: str | None = None,
        expires_at: datetime | None = None,
        if_version: int | None = None,
    ) -> Credential:
        """Set or replace the account's broker credential; `brokers()` shows the fields that each broker takes."""
        expiry = {} if expires_at is None else {"expires_at": text_of("expires_at", expires_at)}
        path = self._connection.path(account_id, "credentials")
        request = change("PUT", path, {"fields": dict(fields), **expiry}, if_version=if_version)
        return self._session.fetch(request, Credential)

    def credential(self, account_id: str | None = None) -> Credential:
        """Read the state of the credential. Its secrets cannot be read."""
        return self._session.get(Credential, self._connection.path(account_id, "credentials"))

    def verify_credential(self, account_id: str | None = None) -> Credential:
        """Check the credential with the broker now."""
        request = Request("POST", self._connection.path(account_id, "credentials", "verify"))
        return self._session.fetch(request, Credential)

    def remove_credential(self, account_id: str | None = None, *, if_version: int | None = None) -> None:
        """Remove the credential; the platform destroys its secrets."""
        request = Request("DELETE", self._connection.path(account_id, "credentials"))
        self._session.request(if_match(request, if_version))


class ApiKeys(Calls):
    """The API keys of the organization."""

    def create(
        self,
        name: str,
        *,
        environment: Environment,
        permissions: Sequence[str],
        expires_at: datetime | None = None,
        own_orders_only: bool = False,
        account_ids: Sequence[str] | None = None,
    ) -> ApiKey:
        """Create a key. The result holds the secret `api_key`, which cannot be read again."""
        body: dict[str, object] = {"name": name, "environment": environment, "permissions": [*permissions]}
        if account_ids is not None:
            body["account_ids"] = [*account_ids]
        if own_orders_only:
            body["own_orders_only"] = True
        if expires_at is not None:
            body["expires_at"] = text_of("expires_at", expires_at)
        return self._session.fetch_once(change("POST", path_of("api-keys"), body), ApiKey)

    def create_for_agent(
        self,
        name: str,
        *,
        expires_at: datetime,
        environment: Environment = "paper",
        **budget: Unpack[AgentBudget],
    ) -> ApiKey:
        """Create a key for an agent together with the rules of its budget."""
        amounts = ("order_notional", "day_notional", "day_loss")
        agent = {field: str(value) if field in amounts else value for field, value in budget.items()}
        body = {"name": name, "environment": environment, "expires_at": text_of("expires_at", expires_at)}
        return self._session.fetch_once(change("POST", path_of("api-keys"), {**body, "agent": agent}), ApiKey)

    def worst_case(self, api_key_id: str) -> WorstCase:
        """Read what the key can still do at worst, by the rules in force of every scope."""
        return self._session.get(WorstCase, path_of("api-keys", api_key_id, "worst-case"))

    def list(self) -> Iterator[ApiKey]:
        """List the keys, the newest first."""
        return self._session.items(page(path_of("api-keys")), PageOf[ApiKey])

    def show(self, api_key_id: str) -> ApiKey:
        """Read one key."""
        return self._session.get(ApiKey, path_of("api-keys", api_key_id))

    def change(self, api_key_id: str, **changes: Unpack[ApiKeyChanges]) -> ApiKey:
        """Rename, disable or enable a key, or set own_orders_only. It takes effect on all servers within a second."""
        return self._session.fetch(change("PATCH", path_of("api-keys", api_key_id), changes), ApiKey)

    def revoke(self, api_key_id: str) -> None:
        """Revoke a key permanently."""
        self._session.request(Request("DELETE", path_of("api-keys", api_key_id)))

    def validate(self, api_key: str | None = None) -> ValidKey:
        """Read the organization of a key (default: the client's). Raises NotAuthenticated if the key is not valid."""
        if api_key is None:
            if self._connection.api_key is None:
                raise NotConfigured("No API key was given.", "Pass api_key, or set OPENBELL_API_KEY.")
            api_key = self._connection.api_key.text
        request = change("POST", "/api/v1/auth/api-key/validate", {"api_key": api_key})
        return self._session.fetch(request, ValidKey)


class Audit(Calls):
    """The audit log of the organization, for its admins."""

    def list(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        operation: str | None = None,
        principal_id: str | None = None,
        newest_first: bool = False,
    ) -> Iterator[AuditEntry]:
        """List changes, for example those of the operation "keys create" or of one user."""
        order = "desc" if newest_first else None
        request = page(
            path_of("audit"), since=since, until=until, operation=operation, principal_id=principal_id, order=order
        )
        return self._session.items(request, PageOf[AuditEntry])


class Operations(Calls):
    """Calls for operators and sign-in services."""

    def health(self) -> Health:
        """Check that the API answers."""
        return self._session.get(Health, "/healthz")

    def outboxes(self) -> Outboxes:
        """Read the state of all queues: a verdict and counts."""
        return self._session.get(Outboxes, path_of("operations", "outboxes"))

    def outbox_health(self) -> OutboxHealth:
        """Read the queue of account changes by status and event type."""
        return self._session.get(OutboxHealth, path_of("accounts", "outbox", "health"))

    def me(self) -> Me:
        """Read who the credential belongs to, and what it may do."""
        return self._session.get(Me, path_of("me"))

    def organization(self, provider: str, provider_id: str) -> Organization:
        """Read an organization by the id that its identity provider uses."""
        return self._session.get(Organization, path_of("organizations", "by-provider", provider, provider_id))

    def delete_me(self) -> None:
        """Delete the user of this access token permanently."""
        self._session.request_once(Request("DELETE", path_of("users", "me")))
