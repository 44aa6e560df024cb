"""Finds with one statement which of an executor's sweeps have work; mostly none has."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role
from openbell_server.application.execution.account_dispatcher import SWEEP_SECONDS
from openbell_server.application.execution.flag_unknown import FLAG_SECONDS, STUCK_SECONDS
from openbell_server.application.execution.sweeps import Sweep

# The files with the statements that the sweeps run.
FILES: Final = ("heartbeats", "halts", "desk_work", "execution", "unknown_outcomes", "sign_ins", "resting_orders")


def parts() -> dict[str, str]:
    """The statements by name, with the slots as text: the driver looks at each element of an array several times."""
    statements = {name: text for file in FILES for name, text in named_queries.statements(file).items()}
    return {name: text.replace(":slots::", ":held_slots::text::") for name, text in statements.items()}


_queries = named_queries.load("sweeps", parts())


@dataclass(frozen=True, slots=True)
class PostgresSweepStore(PostgresStore):
    """Implements SweepStore."""

    async def sweeps_with_work_across_organizations(self, slots: Collection[int]) -> frozenset[Sweep]:
        row = await self._one_across(
            Role.EXECUTOR,
            _queries.sweeps_with_work_across_organizations,
            held_slots=named_queries.array_of_numbers(slots),
            row_limit=1,
            older_than_seconds=SWEEP_SECONDS,
            stuck_after_seconds=STUCK_SECONDS,
            flag_after_seconds=FLAG_SECONDS,
            # Each broker has its own time, which the sweep looks at.
            settle_seconds=0.0,
        )
        return frozenset(sweep for sweep in Sweep if row[sweep])
