"""New ids from the database."""

from typing import Protocol
from uuid import UUID


class Ids(Protocol):
    async def new_ids(self, count: int) -> list[UUID]:
        """UUIDv7 on the database's clock."""
