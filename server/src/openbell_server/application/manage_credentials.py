"""Set, read, remove and verify what an account signs in with; its secrets are sealed here and never seen again."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from openbell_server.application.manage_accounts import first_status
from openbell_server.application.ports.broker import BrokerDefinition, CredentialForm
from openbell_server.application.ports.credentials import CredentialStore, Standing
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import AccountStore, Ids
from openbell_server.application.ports.vault import Sealer, VaultError
from openbell_server.domain.accounts import TradingAccount, require_version
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.credentials import (
    EXTERNAL_ACCOUNT_MISMATCH,
    MASK,
    Credential,
    NewCredential,
    SecretPlace,
    Secrets,
    hint_of,
)
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.principals import Principal

# How often a credential is sealed anew because another change came first.
TRIES_MAX: Final = 5
# How long a caller waits for what the broker says.
ANSWER_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.1
Versions = Collection[int] | None


@dataclass(frozen=True, slots=True)
class Filled:
    """The form as a caller filled it in."""

    secrets: Secrets
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class ManageCredentials:
    """What people and keys do with the credential of an account."""

    accounts: AccountStore
    credentials: CredentialStore
    brokers: Mapping[str, BrokerDefinition]
    ids: Ids
    # None: the operator has not said where keys are.
    sealer: Sealer | None
    hints: Hints

    async def put(
        self,
        caller: Principal,
        account_id: AccountId,
        expected: Versions,
        decode: Callable[[CredentialForm], Awaitable[Filled]],
    ) -> Credential:
        """Create or replace the credential."""
        account = await self._enter(caller, Operation.EDIT_CREDENTIALS, account_id)
        form = self.brokers[account.broker].credentials
        if form is None:
            raise Problem("credentials_not_supported", f"accounts at {account.broker} have nothing to sign in with")
        if self.sealer is None:
            raise Problem("vault_missing", "there is no key to seal secrets with")
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
                self._tell(account_id)
                return saved
        raise Problem("concurrent_change", "others changed the credential at the same time")

    async def show(self, caller: Principal, account_id: AccountId) -> Credential:
        """The credential without its secrets."""
        await self._enter(caller, Operation.READ_CREDENTIALS, account_id)
        return _present(await self.credentials.read(caller.organization_id, account_id))

    async def remove(self, caller: Principal, account_id: AccountId, expected: Versions) -> None:
        """Remove the credential; its secrets are destroyed soon after."""
        account = await self._enter(caller, Operation.EDIT_CREDENTIALS, account_id)

        def check(standing: Standing) -> None:
            _present(standing)
            standing.require_open()
            _require_version(standing, expected)

        await self.credentials.remove(caller, account_id, check, first_status(self.brokers[account.broker]))
        self._tell(account_id)

    async def verify(self, caller: Principal, account_id: AccountId) -> Credential:
        """The credential as it stands after its broker was asked again."""
        await self._enter(caller, Operation.EDIT_CREDENTIALS, account_id)
        standing = await self.credentials.read(caller.organization_id, account_id)
        _present(standing)
        standing.require_open()
        asked_at = await self.credentials.ask(caller.organization_id, account_id)
        self.hints.sign_in_was_asked_for(account_id)
        clock = asyncio.get_running_loop().time
        until = clock() + ANSWER_SECONDS
        while clock() < until:
            standing = await self.credentials.read(caller.organization_id, account_id)
            credential = _present(standing)
            if asked_at is not None and standing.answered_at is not None and standing.answered_at >= asked_at:
                if standing.refusal_code == EXTERNAL_ACCOUNT_MISMATCH:
                    raise Problem("external_account_mismatch", "the credential is for another account at the broker")
                return credential
            await asyncio.sleep(POLL_SECONDS)
        raise Problem("verification_unanswered", "the broker has not said yet whether it takes the credential")

    async def _enter(self, caller: Principal, operation: Operation, account_id: AccountId) -> TradingAccount:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, operation, account)
        if operation is Operation.EDIT_CREDENTIALS and account.organization_disabled:
            raise Problem("organization_disabled", "the organization is disabled")
        return account

    def _tell(self, account_id: AccountId) -> None:
        self.hints.outbox_has_rows()
        self.hints.events_were_written([account_id])


def read_form(form: CredentialForm, fields: Mapping[str, object]) -> Secrets:
    """What a caller filled in, if it is what the form asks for; no refusal repeats anything of it."""
    names = [field.name for field in form.fields]
    if not fields.keys() <= set(names):
        # Not even the name: whoever mixed up name and value would find it in a log.
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
        raise Problem("version_mismatch", "there is none")
