"""Limit the open streams of one organization over all processes, SSE and gRPC together.

Each process keeps its number of open streams of an organization in the database. To open a stream it writes its new
number under a lock of the organization, if the sum of all processes allows it. Closing writes nothing at once: the
numbers are renewed every few seconds. A process that was killed stops renewing, and after STALE_SECONDS its streams are
not counted any more. A stream that is being opened counts as open, and the writes of a process are numbered, so that a
late one does not hide a stream.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

from openbell_server.domain.access.caps import Cap
from openbell_server.domain.identifiers import OrganizationId

RENEW_SECONDS: Final = 3.0
# After a stream was closed, so that other processes can use its place.
CHANGED_SECONDS: Final = 0.5
# After the database refused a stream, how long further ones are refused without asking it.
FULL_SECONDS: Final = 0.25
STALE_SECONDS: Final = 12.0


class StreamCountStore(Protocol):
    """The numbers of this process, and those of the others; of two writes the higher `write_no` counts."""

    async def raise_count(self, organization_id: OrganizationId, streams: int, streams_max: int, write_no: int) -> bool:
        """Write this process's number; False if the sum of all processes would exceed the maximum."""

    async def renew_across_organizations(self, streams: Mapping[OrganizationId, int], write_no: int) -> bool:
        """Write this process's numbers, also lower ones; False if that was not possible."""


class _Organization:
    def __init__(self) -> None:
        # Open, or being opened.
        self.streams = 0
        self.full_until = 0.0


class StreamPlaces:
    """One per process."""

    def __init__(self, store: StreamCountStore, cap: Cap) -> None:
        self._store = store
        self._cap = cap
        self._organizations: dict[OrganizationId, _Organization] = {}
        self._write_numbers = itertools.count(1)
        self._changed = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    def refuse_if_full(self, organization_id: OrganizationId) -> None:
        """Raise Problem if it is known without asking the database that the organization has no place left."""
        organization = self._organizations.get(organization_id)
        if organization is None:
            return
        is_refused = asyncio.get_running_loop().time() < organization.full_until
        if is_refused or organization.streams >= self._cap.limit:
            raise self._cap.refusal()

    @contextlib.asynccontextmanager
    async def place(self, organization_id: OrganizationId) -> AsyncIterator[None]:
        """Hold the place of one stream; raises Problem at the cap."""
        self.refuse_if_full(organization_id)
        organization = self._organizations.setdefault(organization_id, _Organization())
        organization.streams += 1
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())
        try:
            wanted = organization.streams, self._cap.limit, next(self._write_numbers)
            if not await self._store.raise_count(organization_id, *wanted):
                organization.full_until = asyncio.get_running_loop().time() + FULL_SECONDS
                raise self._cap.refusal()
            yield
        finally:
            organization.streams -= 1
            self._changed.set()

    async def close(self) -> None:
        """Called after the last stream of a process that stops, so that its places are free at once."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
            await self._write()

    async def _renew(self) -> None:
        while self._organizations:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._changed.wait()
                    await asyncio.sleep(CHANGED_SECONDS)
            self._changed.clear()
            await self._write()

    async def _write(self) -> None:
        """Write all numbers. On failure those of this process go stale, and the next write corrects them."""
        organizations = dict(self._organizations)
        written = {organization_id: each.streams for organization_id, each in organizations.items()}
        if not await self._store.renew_across_organizations(written, next(self._write_numbers)):
            return
        for organization_id, each in organizations.items():
            if not (written[organization_id] or each.streams):
                self._organizations.pop(organization_id, None)
