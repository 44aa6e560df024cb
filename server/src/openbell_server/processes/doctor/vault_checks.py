"""The vault: whether its key is there and does what this process needs of it."""

from typing import Final
from uuid import UUID

from openbell_server.application.ports.vault import VaultError
from openbell_server.domain.credentials import SealedSecrets, SecretPlace, Secrets
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.processes.doctor.findings import Check, Patient, Said, fine, problem, warning
from openbell_server.processes.vault import AWS_KMS, opener, sealer

_NOWHERE: Final = UUID(int=0)
_PLACE: Final = SecretPlace(OrganizationId(_NOWHERE), AccountId(_NOWHERE), _NOWHERE, 1)
_NOBODYS: Final = Secrets({"test": "nobody's secret"})
_MAKE: Final = "Make a key with `openbell-server vault create-key`, and name it in OPENBELL_VAULT_KEY."


async def _no_key(patient: Patient) -> Said:
    if await patient.database.sealed_objects():
        return problem(
            "There are sealed credentials and no key for the vault.",
            "Set OPENBELL_VAULT_KEY to the key that they were sealed with.",
        )
    return warning("There is no key for the vault: broker credentials are not taken in.", _MAKE)


async def _seals(patient: Patient) -> Said:
    """For those who take secrets in."""
    if not patient.settings.vault_key:
        return await _no_key(patient)
    try:
        vault = sealer(patient.settings)
        assert vault is not None
        sealed = await vault.seal(_PLACE, _NOBODYS)
    except (OperatorError, VaultError) as error:
        return problem("The key of the vault cannot be used for sealing.", str(error))
    if patient.settings.vault_key.startswith(AWS_KMS) and await _is_opened(patient, sealed):
        return problem(
            "This process can open what it sealed.", "Take kms:Decrypt from its role in IAM: only executors need it."
        )
    return fine("The vault seals, and this process cannot open what it sealed.")


async def _is_opened(patient: Patient, sealed: SealedSecrets) -> bool:
    """A public key file cannot open; of a key in KMS only a try tells."""
    vault = opener(patient.settings)
    assert vault is not None
    try:
        await vault.open(_PLACE, sealed)
    except VaultError:
        return False
    return True


async def _opens(patient: Patient) -> Said:
    """For executors: what was sealed, by any key that wraps something, is opened and thrown away."""
    if not patient.settings.vault_key:
        return await _no_key(patient)
    try:
        vault = opener(patient.settings)
    except (OperatorError, VaultError) as error:
        return problem("The key of the vault cannot be used for opening.", str(error))
    assert vault is not None
    found = await patient.database.an_object_of_each_key()
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
