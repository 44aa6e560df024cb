"""What a doctor finds, what is looked at, and how one check that breaks spoils no other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import asyncpg
import httpx

from openbell_server.adapters.jetstream.examination import NatsExamination, open_nats_examination
from openbell_server.adapters.postgres.connection import OUTDATED, UNREACHABLE, plainly
from openbell_server.adapters.postgres.examination import Examination, open_examination
from openbell_server.settings import Settings
from openbell_server.telemetry.logs import mask

CHECK_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 4.0
ALL: Final = frozenset({"api", "stream", "relay", "executor", "paper"})
PLATFORM: Final = ALL - {"paper"}
CALLED: Final = frozenset({"api", "stream"})


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about what is so, and one about how to mend it."""

    area: str
    check: str
    level: Level
    what: str
    fix: str = ""


class OutOfReach(Exception):
    """What a check needs is not there; another check says so."""


Said = tuple[Level, str, str] | None


def fine(what: str) -> Said:
    """All is well."""
    return Level.OK, what, ""


def warning(what: str, fix: str) -> Said:
    """It works, and may hurt one day."""
    return Level.WARNING, what, fix


def problem(what: str, fix: str) -> Said:
    """It breaks a promise, or keeps a process from its work."""
    return Level.PROBLEM, what, fix


def cannot_tell(what: str, fix: str) -> Said:
    """Nobody can know from here."""
    return Level.CANNOT_TELL, what, fix


@dataclass(slots=True)
class Patient:
    """The platform as one process's settings show it; what could not be opened is out of reach, and why."""

    settings: Settings
    process: str
    client: httpx.AsyncClient
    _database: Examination | None = None
    _nats: NatsExamination | None = None
    troubles: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> Examination:
        """The database."""
        if self._database is None:
            raise OutOfReach("the database was not reached")
        return self._database

    @property
    def nats(self) -> NatsExamination:
        """NATS."""
        if self._nats is None:
            raise OutOfReach("NATS was not reached")
        return self._nats

    async def open(self, stack: contextlib.AsyncExitStack) -> None:
        """Reach what can be reached."""
        is_paper = self.process == "paper"
        url = (self.settings.paper_database_url if is_paper else self.settings.database_url).get_secret_value()
        try:
            if url:
                async with asyncio.timeout(OPEN_SECONDS):
                    self._database = await stack.enter_async_context(open_examination(url))
        except (*UNREACHABLE, asyncpg.PostgresError, ValueError) as error:
            self.troubles["database"] = plainly(error)
        try:
            if not is_paper:
                async with asyncio.timeout(OPEN_SECONDS):
                    self._nats = await stack.enter_async_context(open_nats_examination(self.settings.nats_url))
        except Exception as error:  # noqa: BLE001 - the client has many, and all mean the same
            self.troubles["nats"] = type(error).__name__


@contextlib.asynccontextmanager
async def a_patient(settings: Settings, process: str) -> AsyncIterator[Patient]:
    """One to look at."""
    async with (
        contextlib.AsyncExitStack() as stack,
        httpx.AsyncClient(timeout=CHECK_SECONDS / 2, follow_redirects=False) as client,
    ):
        patient = Patient(settings, process, client)
        await patient.open(stack)
        yield patient


@dataclass(frozen=True, slots=True)
class Check:
    """One small look; None says that it does not concern these settings."""

    area: str
    name: str
    look: Callable[[Patient], Awaitable[Said]]
    processes: frozenset[str] = ALL


async def look_over(patient: Patient, checks: Sequence[Check]) -> list[Finding]:
    """All that concern the process, each with its own deadline."""
    concerned = [check for check in checks if patient.process in check.processes]
    found = await asyncio.gather(*(_look(patient, check) for check in concerned))
    return [finding for finding in found if finding is not None]


async def _look(patient: Patient, check: Check) -> Finding | None:
    mend = "Mend what is said above, and look again."
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            said = await check.look(patient)
    except OutOfReach as missing:
        said = cannot_tell(f"Not looked at: {missing}.", mend)
    except OUTDATED:
        said = cannot_tell("Not looked at: the schema is older than this version.", "Run `openbell-server migrate`.")
    except asyncpg.InsufficientPrivilegeError:
        said = cannot_tell("Not looked at: the login may not ask for it.", "Give it the roles: `migrate --login NAME`.")
    except TimeoutError:
        said = cannot_tell(f"No answer within {CHECK_SECONDS:g} s.", mend)
    except Exception as error:  # noqa: BLE001 - one check that breaks must not hide what the others found
        said = cannot_tell(f"The check itself failed: {type(error).__name__}.", "Tell the makers of Openbell.")
    if said is None:
        return None
    level, what, fix = said
    # A net: no sentence is made of a secret.
    return Finding(check.area, check.name, level, mask(what), mask(fix))
