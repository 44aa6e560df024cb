"""Rewrap every vault object with the current key while the system runs; a second run continues the first."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from openbell_server.application.access.ports.vault import (
    Rewrapped,
    Rewrapper,
    VaultError,
    VaultObject,
    VaultObjects,
    VaultUnreachable,
)
from openbell_server.domain.access.credentials import SecretPlace

BATCH: Final = 100
AT_ONCE: Final = 8
# Other processes seal with the old key until they read the new one; each further pass rewraps those objects.
PASSES_MAX: Final = 10
TRIES_MAX: Final = 5
RETRY_SECONDS: Final = 0.2


@dataclass(slots=True)
class Rotation:
    key_id: str
    rewrapped: int = 0
    # Objects whose own key could not be unwrapped: they could not be opened before the rotation either.
    broken: set[SecretPlace] = field(default_factory=set)
    # Objects still wrapped with another key after the last pass.
    left: int = 0


@dataclass(frozen=True, slots=True)
class RotateVault:
    """Changes each object by compare-and-set: a destroyed object stays destroyed and no other change is overwritten."""

    objects: VaultObjects
    rewrapper: Rewrapper
    # Database errors after which a batch is tried again.
    unavailable: tuple[type[Exception], ...]

    async def run(self, progress: Callable[[Rotation], None]) -> Rotation:
        """Run at most PASSES_MAX passes; raises VaultUnreachable if the key service does not answer."""
        rotation = Rotation(await self.rewrapper.current_key_id())
        for _ in range(PASSES_MAX):
            if not await self._pass(rotation, progress):
                break
        counts = await self.objects.count_across_organizations()
        rotation.left = sum(counts.values()) - counts.get(rotation.key_id, 0)
        return rotation

    async def _pass(self, rotation: Rotation, progress: Callable[[Rotation], None]) -> bool:
        """Whether it found objects that another key wraps and that can be unwrapped."""
        met, after = False, None
        while batch := await self._until_available(rotation, after):
            met = met or any(each.place not in rotation.broken for each in batch)
            after = batch[-1].place
            progress(rotation)
        return met

    async def _until_available(self, rotation: Rotation, after: SecretPlace | None) -> list[VaultObject]:
        for tries in range(1, TRIES_MAX + 1):
            try:
                return await self._batch(rotation, after)
            except self.unavailable:
                if tries == TRIES_MAX:
                    raise
                await asyncio.sleep(RETRY_SECONDS * tries)
        raise AssertionError("the last try returns or raises")

    async def _batch(self, rotation: Rotation, after: SecretPlace | None) -> list[VaultObject]:
        batch = list(await self.objects.list_wrapped_by_others_across_organizations(rotation.key_id, after, BATCH))
        for organization_id, theirs in groupby(batch, key=lambda each: each.place.organization_id):
            done = await self._rewrap(rotation, theirs)
            if done:
                rotation.rewrapped += await self.objects.save(organization_id, done)
        return batch

    async def _rewrap(self, rotation: Rotation, objects: Iterable[VaultObject]) -> list[Rewrapped]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def rewrap(each: VaultObject) -> Rewrapped | None:
            async with turns:
                try:
                    done = Rewrapped(each, await self.rewrapper.rewrap(each.place, each.sealed))
                except VaultError as error:
                    if isinstance(error, VaultUnreachable):
                        # Raises if the current key is unreachable too; otherwise only this object's key is.
                        await self.rewrapper.current_key_id()
                    rotation.broken.add(each.place)
                    return None
            rotation.broken.discard(each.place)
            return done

        return [done for done in await asyncio.gather(*map(rewrap, objects)) if done is not None]
