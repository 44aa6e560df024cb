"""When commands are refused because too many wait for an executor."""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from openbell_server.application.intents.send_backlog import (
    BACKLOG_MAX,
    LOOK_AFTER,
    LOOK_SECONDS,
    VALID_SECONDS,
    SendBacklog,
    WaitingCommands,
    refused_at,
)
from openbell_server.domain.identifiers import AccountId, OrganizationId
from support.brokers.execution_harness import Clock


class Unreachable(Exception):
    """The database did not answer."""


def organization(number: int) -> OrganizationId:
    return OrganizationId(UUID(int=number))


def account(number: int) -> AccountId:
    return AccountId(UUID(int=100 + number))


@dataclass
class Database:
    clock: Clock = field(default_factory=Clock)
    waiting: list[int] = field(default_factory=list)
    looks: int = 0
    fails: bool = False

    async def count(self) -> list[WaitingCommands]:
        self.looks += 1
        await asyncio.sleep(0)
        if self.fails:
            raise Unreachable
        return [WaitingCommands(organization(n), account(n), count) for n, count in enumerate(self.waiting)]

    def backlog(self) -> SendBacklog:
        return SendBacklog(self.count, (Unreachable,), self.clock)


async def looked(backlog: SendBacklog, commands: int = LOOK_AFTER) -> bool:
    """What the next command is answered after so many."""
    for _ in range(commands):
        backlog.refuses(organization(0))
    for _ in range(3):
        await asyncio.sleep(0)
    return backlog.refuses(organization(0))


async def test_commands_are_refused_while_too_many_wait_for_an_executor() -> None:
    database = Database(waiting=[BACKLOG_MAX])
    backlog = database.backlog()
    assert await looked(backlog)
    database.clock.seconds += LOOK_SECONDS
    database.waiting = [BACKLOG_MAX - 1]
    assert not await looked(backlog)


async def test_the_backlog_is_not_looked_at_before_many_commands_came() -> None:
    database = Database(waiting=[BACKLOG_MAX])
    assert not await looked(database.backlog(), LOOK_AFTER - 1)
    assert database.looks == 0


async def test_a_long_backlog_is_looked_at_again_by_the_next_command() -> None:
    database = Database(waiting=[BACKLOG_MAX])
    backlog = database.backlog()
    assert await looked(backlog)
    database.waiting = []
    database.clock.seconds += LOOK_SECONDS
    assert not await looked(backlog, 1)


async def test_many_commands_cause_one_look() -> None:
    database = Database()
    backlog = database.backlog()
    await looked(backlog, 10 * LOOK_AFTER)
    assert database.looks == 1


async def test_a_result_is_used_until_the_next_look_ends_but_not_for_long() -> None:
    database = Database(waiting=[BACKLOG_MAX])
    backlog = database.backlog()
    assert await looked(backlog)
    database.clock.seconds += VALID_SECONDS / 2
    assert backlog.refuses(organization(0))
    database.clock.seconds += VALID_SECONDS / 2
    assert not backlog.refuses(organization(0))
    await asyncio.sleep(0)


async def test_a_backlog_that_cannot_be_counted_refuses_nothing() -> None:
    database = Database(waiting=[BACKLOG_MAX])
    backlog = database.backlog()
    assert await looked(backlog)
    database.fails = True
    database.clock.seconds += LOOK_SECONDS
    assert not await looked(backlog, 1)


def test_a_full_backlog_of_one_organization_refuses_no_other() -> None:
    waiting = [
        WaitingCommands(organization(1), account(1), BACKLOG_MAX - 60),
        WaitingCommands(organization(1), account(2), 10),
        WaitingCommands(organization(2), account(3), 50),
    ]
    assert refused_at(waiting) == {organization(1), account(1), account(2)}
    assert refused_at(waiting[:1]) == frozenset()


def test_organizations_that_fill_the_backlog_together_are_all_refused() -> None:
    half = BACKLOG_MAX // 2
    both = [WaitingCommands(organization(1), account(1), half), WaitingCommands(organization(2), account(2), half)]
    assert refused_at(both) == {organization(1), organization(2), account(1), account(2)}
