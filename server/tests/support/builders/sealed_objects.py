"""Key files in a folder, and vault objects sealed by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from openbell_server.adapters.postgres.access.vault_objects import add_vault_object
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.vault.envelope import EnvelopeOpener, EnvelopeRewrapper, EnvelopeSealer
from openbell_server.adapters.vault.key_file import KeyFile, add_key, create_key_files
from openbell_server.application.access.ports.vault import Sealer
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.credentials import SecretPlace, Secrets

SECRETS = Secrets({"api_key": "AK-canary", "api_secret": "ünïcode \u0000 canary"})


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """A pair of key files; each sealer and opener is one more process."""

    private: Path
    public: Path

    @classmethod
    def create(cls, folder: Path) -> Self:
        files = cls(folder / "private.json", folder / "public.json")
        create_key_files(files.private, files.public)
        return files

    @property
    def key_id(self) -> str:
        return KeyFile(self.private).current_id()

    def add_key(self) -> str:
        return add_key(self.private, self.public)

    @property
    def sealer(self) -> EnvelopeSealer:
        return EnvelopeSealer(KeyFile(self.public))

    @property
    def opener(self) -> EnvelopeOpener:
        return EnvelopeOpener(KeyFile(self.private))

    @property
    def rewrapper(self) -> EnvelopeRewrapper:
        return EnvelopeRewrapper(KeyFile(self.private))


async def keep_sealed(pool: Pool, account: TradingAccount, sealer: Sealer, count: int = 1) -> Sequence[SecretPlace]:
    """Objects of one account, sealed and kept as the api does it, in one transaction."""
    places = [SecretPlace(account.organization_id, account.id, uuid4(), 1) for _ in range(count)]
    sealed = [await sealer.seal(place, SECRETS) for place in places]
    async with transaction(pool, Role.TENANT, account.organization_id) as connection:
        for place, each in zip(places, sealed, strict=True):
            await add_vault_object(connection, place, each)
    return places
