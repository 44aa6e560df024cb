"""Checks the vault: whether its key exists and does what this process needs."""

from typing import Final
from uuid import UUID

from openbell_server.application.access.ports.vault import VaultError
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace, Secrets
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.processes.doctor.findings import Check, Result, Target, fine, problem, warning
from openbell_server.processes.vault import AWS_KMS, opener, sealer

_NOWHERE: Final = UUID(int=0)
_PLACE: Final = SecretPlace(OrganizationId(_NOWHERE), AccountId(_NOWHERE), _NOWHERE, 1)
_NOBODYS: Final = Secrets({"test": "nobody's secret"})
_MAKE: Final = "Create a key with `openbell-server vault create-key`, and set OPENBELL_VAULT_KEY to it."


async def _no_key(target: Target) -> Result:
    if await target.database.sealed_objects():
        return problem(
            "There are sealed credentials, but the vault has no key.",
            "Set OPENBELL_VAULT_KEY to the key that they were sealed with.",
        )
    return warning("The vault has no key: broker credentials are not accepted.", _MAKE)


async def _seals(target: Target) -> Result:
    if not target.settings.vault_key:
        return await _no_key(target)
    try:
        vault = sealer(target.settings)
        assert vault is not None
        sealed = await vault.seal(_PLACE, _NOBODYS)
    except (OperatorError, VaultError) as error:
        return problem("The key of the vault cannot be used for sealing.", str(error))
    if target.settings.vault_key.startswith(AWS_KMS) and await _is_opened(target, sealed):
        return problem(
            "This process can open what it sealed.", "Remove kms:Decrypt from its role in IAM: only executors need it."
        )
    return fine("The vault seals, and this process cannot open what it sealed.")


async def _is_opened(target: Target, sealed: SealedSecrets) -> bool:
    """A public key file cannot open; for a key in KMS only a try shows it."""
    vault = opener(target.settings)
    assert vault is not None
    try:
        await vault.open(_PLACE, sealed)
    except VaultError:
        return False
    return True


async def _opens(target: Target) -> Result:
    """Open one object of each key and discard the result."""
    if not target.settings.vault_key:
        return await _no_key(target)
    try:
        vault = opener(target.settings)
    except (OperatorError, VaultError) as error:
        return problem("The key of the vault cannot be used for opening.", str(error))
    assert vault is not None
    found = await target.database.an_object_of_each_key()
    for place, sealed in found:
        try:
            await vault.open(place, sealed)
        except VaultError as error:
            return problem(f"What was sealed under the key {sealed.key_id} cannot be opened.", str(error))
    if not found:
        return fine("The vault's key can be read; nothing is sealed yet.")
    return fine(f"The vault opens what was sealed, under {len(found)} key(s).")


CHECKS: Final = (
    Check("vault", "seals", _seals, frozenset({"api"})),
    Check("vault", "opens", _opens, frozenset({"executor"})),
)
