"""Findings, checks and the target of doctor; a check that fails does not affect the others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import asyncpg
import httpx

from openbell_server.adapters.jetstream.diagnostics import NatsDiagnostics, open_nats_diagnostics
from openbell_server.adapters.postgres.connection import OUTDATED, UNREACHABLE, describe_error
from openbell_server.adapters.postgres.operators.diagnostics import Diagnostics, open_diagnostics
from openbell_server.settings import Settings
from openbell_server.telemetry.logs import mask

CHECK_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 4.0
# The parts of processes that run several.
PARTS: Final = {"front": frozenset({"api", "stream"}), "back": frozenset({"relay", "executor"})}
CALLED: Final = PARTS["front"]
PLATFORM: Final = CALLED | PARTS["back"]
# What reads the platform's database.
DATABASE: Final = PLATFORM | {"console"}
ALL: Final = DATABASE | {"paper"}


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about the state, and one about how to fix it."""

    area: str
    check: str
    level: Level
    what: str
    fix: str = ""


class OutOfReach(Exception):
    """A service that the check needs is not available; another check reports that."""


Result = tuple[Level, str, str] | None


def fine(what: str) -> Result:
    return Level.OK, what, ""


def warning(what: str, fix: str) -> Result:
    """It works, but may fail later."""
    return Level.WARNING, what, fix


def problem(what: str, fix: str) -> Result:
    """It breaks a guarantee, or prevents a process from working."""
    return Level.PROBLEM, what, fix


def cannot_tell(what: str, fix: str) -> Result:
    """It cannot be determined from here."""
    return Level.CANNOT_TELL, what, fix


@dataclass(slots=True)
class Target:
    """The platform as seen with one process's settings; troubles has the reason for each service that could not be
    opened.
    """

    settings: Settings
    process: str
    client: httpx.AsyncClient
    _database: Diagnostics | None = None
    _nats: NatsDiagnostics | None = None
    troubles: dict[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> frozenset[str]:
        return PARTS.get(self.process, frozenset({self.process}))

    @property
    def database(self) -> Diagnostics:
        if self._database is None:
            raise OutOfReach("the database was not reached")
        return self._database

    @property
    def nats(self) -> NatsDiagnostics:
        if self._nats is None:
            raise OutOfReach("NATS was not reached")
        return self._nats

    async def open(self, stack: contextlib.AsyncExitStack) -> None:
        is_paper = self.process == "paper"
        url = (self.settings.paper_database_url if is_paper else self.settings.database_url).get_secret_value()
        try:
            if url:
                async with asyncio.timeout(OPEN_SECONDS):
                    self._database = await stack.enter_async_context(open_diagnostics(url))
        except (*UNREACHABLE, asyncpg.PostgresError, ValueError) as error:
            self.troubles["database"] = describe_error(error)
        try:
            if not is_paper and self.settings.nats_url:
                async with asyncio.timeout(OPEN_SECONDS):
                    self._nats = await stack.enter_async_context(open_nats_diagnostics(self.settings.nats_url))
        except Exception as error:  # noqa: BLE001 - the client raises many types, and all mean the same
            self.troubles["nats"] = type(error).__name__


@contextlib.asynccontextmanager
async def open_target(settings: Settings, process: str) -> AsyncIterator[Target]:
    async with (
        contextlib.AsyncExitStack() as stack,
        httpx.AsyncClient(timeout=CHECK_SECONDS / 2, follow_redirects=False) as client,
    ):
        target = Target(settings, process, client)
        await target.open(stack)
        yield target


@dataclass(frozen=True, slots=True)
class Check:
    """One check; look returns None if it does not apply to these settings."""

    area: str
    name: str
    look: Callable[[Target], Awaitable[Result]]
    processes: frozenset[str] = ALL


async def look_over(target: Target, checks: Sequence[Check]) -> list[Finding]:
    """Run all checks of the process, each with its own timeout."""
    concerned = [check for check in checks if target.parts & check.processes]
    found = await asyncio.gather(*(_look(target, check) for check in concerned))
    return [finding for finding in found if finding is not None]


async def _look(target: Target, check: Check) -> Finding | None:
    remedy = "Fix the problems above, then run doctor again."
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            result = await check.look(target)
    except OutOfReach as missing:
        result = cannot_tell(f"Not checked: {missing}.", remedy)
    except OUTDATED:
        result = cannot_tell("Not checked: the schema is older than this version.", "Run `openbell-server migrate`.")
    except asyncpg.InsufficientPrivilegeError:
        result = cannot_tell(
            "Not checked: the login lacks the roles.",
            "Run `openbell-server migrate --logins PREFIX`, and use the login of this process.",
        )
    except TimeoutError:
        result = cannot_tell(f"No answer within {CHECK_SECONDS:g} s.", remedy)
    except Exception as error:  # noqa: BLE001 - one check that breaks must not hide what the others found
        result = cannot_tell(
            f"The check itself failed: {type(error).__name__}.", "Report this error to the developers of Openbell."
        )
    if result is None:
        return None
    level, what, fix = result
    # A second safeguard: no text is built from a secret.
    return Finding(check.area, check.name, level, mask(what), mask(fix))
