"""The sweeps of an executor: they find what a lost notification announced, and what only time makes due."""

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol


class Sweep(StrEnum):
    HEARTBEATS = "HEARTBEATS"
    HALTS = "HALTS"
    DESK = "DESK"
    WORK = "WORK"
    SIGN_INS = "SIGN_INS"
    RESTING = "RESTING"


class SweepStore(Protocol):
    async def sweeps_with_work_across_organizations(self, slots: Collection[int]) -> frozenset[Sweep]:
        """The sweeps that would find something in these slots now."""
