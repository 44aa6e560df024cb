"""Set, read, remove and verify the broker credential of an account; its secrets are sealed before they are stored."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.manage_accounts import first_status
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.access.ports.credentials import CredentialStore, Standing
from openbell_server.application.access.ports.vault import Sealer, VaultError
from openbell_server.application.ports.broker import BrokerDefinition, CredentialForm
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.ids import Ids
from openbell_server.domain.access.accounts import TradingAccount, require_version
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.credentials import (
    EXTERNAL_ACCOUNT_MISMATCH,
    MASK,
    Credential,
    NewCredential,
    SecretPlace,
    Secrets,
    hint_of,
)
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId

# How often a credential is sealed again because another change was committed first.
TRIES_MAX: Final = 5
# How long a caller waits for the broker's answer.
ANSWER_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.1
Versions = Collection[int] | None


@dataclass(frozen=True, slots=True)
class Filled:
    """The credential form with the caller's values."""

    secrets: Secrets
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ManageCredentials:
    accounts: AccountStore
    credentials: CredentialStore
    brokers: Mapping[str, BrokerDefinition]
    ids: Ids
    # None: the operator has configured no vault.
    sealer: Sealer | None
    hints: Hints

    async def put(
        self,
        caller: Principal,
        account_id: AccountId,
        expected: Versions,
        decode: Callable[[CredentialForm], Awaitable[Filled]],
    ) -> Credential:
        account = await self._enter(caller, Operation.EDIT_CREDENTIALS, account_id)
        form = self.brokers[account.broker].credentials
        if form is None:
            raise Problem("credentials_not_supported", f"accounts at {account.broker} need no credential")
        if self.sealer is None:
            raise Problem("vault_missing", "the operator has configured no key to seal secrets with")
        filled = await decode(form)
        new = NewCredential(
            broker=account.broker, kind=form.kind, hint=_hint(form, filled.secrets), expires_at=filled.expires_at
        )
        for _ in range(TRIES_MAX):
            standing = await self.credentials.read(caller.organization_id, account_id)
            _require_version(standing, expected)
            before = standing.credential
            credential_id = before.id if before else (await self.ids.new_ids(1))[0]
            place = SecretPlace(caller.organization_id, account_id, credential_id, standing.versions + 1)
            try:
                sealed = await self.sealer.seal(place, filled.secrets)
            except VaultError:
                raise Problem("vault_unavailable", "the key that seals secrets cannot be reached") from None
            saved = await self.credentials.save(caller, place, new, sealed)
            if saved is not None:
                self._notify(account_id)
                return saved
        raise Problem("concurrent_change", f"another change of the credential came first, {TRIES_MAX} times in a row")

    async def show(self, caller: Principal, account_id: AccountId) -> Credential:
        await self._enter(caller, Operation.READ_CREDENTIALS, account_id)
        return _present(await self.credentials.read(caller.organization_id, account_id))

    async def remove(self, caller: Principal, account_id: AccountId, expected: Versions) -> None:
        """Remove the credential; the relay destroys its secrets soon after."""
        account = await self._enter(caller, Operation.EDIT_CREDENTIALS, account_id)

        def check(standing: Standing) -> None:
            _present(standing)
            standing.require_open()
            _require_version(standing, expected)

        await self.credentials.remove(caller, account_id, check, first_status(self.brokers[account.broker]))
        self._notify(account_id)

    async def verify(self, caller: Principal, account_id: AccountId) -> Credential:
        """Sign in at the broker again and return the credential with the result; waits up to ANSWER_SECONDS."""
        await self._enter(caller, Operation.EDIT_CREDENTIALS, account_id)
        standing = await self.credentials.read(caller.organization_id, account_id)
        _present(standing)
        standing.require_open()
        requested_at = await self.credentials.request_verification(caller.organization_id, account_id)
        self.hints.sign_in_was_asked_for(account_id)
        clock = asyncio.get_running_loop().time
        until = clock() + ANSWER_SECONDS
        while clock() < until:
            standing = await self.credentials.read(caller.organization_id, account_id)
            credential = _present(standing)
            if requested_at is not None and standing.answered_at is not None and standing.answered_at >= requested_at:
                if standing.refusal_code == EXTERNAL_ACCOUNT_MISMATCH:
                    raise Problem("external_account_mismatch", "the credential is for another account at the broker")
                return credential
            await asyncio.sleep(POLL_SECONDS)
        raise Problem("verification_unanswered", f"the broker did not answer within {ANSWER_SECONDS:g} s")

    async def _enter(self, caller: Principal, operation: Operation, account_id: AccountId) -> TradingAccount:
        return await find_account(self.accounts, caller, operation, account_id)

    def _notify(self, account_id: AccountId) -> None:
        self.hints.outbox_has_rows()
        self.hints.events_were_written([account_id])


def read_form(form: CredentialForm, fields: Mapping[str, object]) -> Secrets:
    """The values as the form requires them; no error text repeats a value."""
    names = [field.name for field in form.fields]
    if not fields.keys() <= set(names):
        # The name is not repeated either: a caller may have swapped name and value, and this text is logged.
        raise InvalidCommand("/fields", f"has a field that is not known; the fields are {', '.join(names)}")
    read: dict[str, str] = {}
    for field in form.fields:
        pointer = f"/fields/{field.name}"
        rule = f"must be a string of 1 to {field.length_max} printable characters"
        if field.name not in fields:
            raise InvalidCommand(pointer, f"is missing; it {rule}")
        value = fields[field.name]
        if not (isinstance(value, str) and 1 <= len(value) <= field.length_max and value.isprintable()):
            raise InvalidCommand(pointer, rule)
        read[field.name] = value
    return Secrets(read)


def _hint(form: CredentialForm, secrets: Secrets) -> str:
    return next((hint_of(secrets[field.name]) for field in form.fields if not field.secret), MASK)


def _present(standing: Standing) -> Credential:
    if standing.credential is None:
        raise Problem("not_found", "the account has no credential")
    return standing.credential


def _require_version(standing: Standing, expected: Versions) -> None:
    if standing.credential is not None:
        require_version(standing.credential.version, expected)
    elif expected is not None:
        raise Problem("version_mismatch", "the account has no credential")
