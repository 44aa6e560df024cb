"""Faults in the vault: associated data, keys, secrets in texts, file modes."""

from typing import Final

from proof.sabotages.fault import SourceFault

FAULTS: Final = (
    SourceFault(
        name="sealed secrets are not bound to their organization",
        file="domain/access/credentials.py",
        old="ids = (self.organization_id, self.account_id, self.credential_id)",
        new="ids = (self.account_id, self.credential_id)",
        tests=("unit/adapters/vault/test_key_file.py::test_secrets_open_at_their_own_place_only",),
    ),
    SourceFault(
        name="the representation of secrets shows their values",
        file="domain/access/credentials.py",
        old="{name}={MASK}' for name in self._values",
        new="{name}={value}' for name, value in self._values.items()",
        tests=("unit/domain/test_secrets.py::test_no_text_shows_a_value",),
    ),
    SourceFault(
        name="an object opens although it names another key",
        file="adapters/vault/key_file.py",
        old="if wrapped.key_id != _named_in(wrapped.wrapped_key):",
        new="if not _named_in(wrapped.wrapped_key):",
        tests=(
            "unit/adapters/vault/test_key_file.py::test_an_object_that_names_another_key_of_the_file_does_not_open",
        ),
    ),
    SourceFault(
        name="every user of the machine can read the key file",
        file="adapters/vault/key_file.py",
        old="0o600",
        new="0o644",
        tests=(
            "unit/adapters/vault/test_key_file.py::test_key_files_are_for_their_owner_only_also_after_a_key_was_added",
        ),
    ),
)
