"""Runs the scenarios of one broker beside each other, and tells what came of each."""

import asyncio
import json
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx

from conformance import cancels, doubtful_orders, feeds, odd_fills, replaces, sessions, simple_orders
from conformance.scenarios import Scenario
from conformance.stage import House
from loopbacks import loopback
from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.identifiers import Symbol
from support.brokers.paper_broker import OPERATOR

CHAPTERS = (simple_orders, doubtful_orders, odd_fills, replaces, cancels, feeds, sessions)
SCENARIOS = [each for chapter in CHAPTERS for each in vars(chapter).values() if isinstance(each, Scenario)]
FOLDER = Path("build/contract")
AT_ONCE_MAX = 8
SECONDS_MAX = 240
CONNECTIONS_MAX = 16
TEMPLATE = "conformance_template"


class Verdict(StrEnum):
    """What came of a scenario."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True, slots=True)
class Result:
    """One scenario at one broker."""

    broker: str
    scenario: str
    verdict: Verdict
    # Why it is not offered, or what went wrong.
    why: str = ""
    seconds: float = 0.0
    excess_writes: tuple[str, ...] = ()


class Databases:
    """Makes databases of one server: empty ones, and ones of the platform."""

    def __init__(self, services: LocalServices) -> None:
        """Nothing is made yet."""
        self._services = services
        self._one_at_a_time = asyncio.Lock()

    async def prepare(self) -> None:
        """Make what the platform's databases are copies of."""
        await self._create(TEMPLATE)
        await asyncio.to_thread(migrate, self._services.postgres.url(TEMPLATE))

    async def new(self, template: str = "template1") -> str:
        """The address of a database that nobody has used."""
        name = f"conformance_{uuid4().hex}"
        await self._create(name, template)
        return self._services.postgres.url(name)

    async def _create(self, name: str, template: str = "template1") -> None:
        async with self._one_at_a_time:
            connection = await asyncpg.connect(self._services.postgres.url("postgres"), timeout=60)
            try:
                await connection.execute(f"create database {name} template {template} strategy file_copy", timeout=60)
            finally:
                await connection.close()


async def run_broker(
    broker: str, scenarios: Sequence[Scenario], databases: Databases, places: asyncio.Semaphore
) -> list[Result]:
    """All of the scenarios that the broker offers, as many at a time as there are places, at one loopback."""
    async with a_house(broker, databases) as house:

        async def one(number: int, scenario: Scenario) -> Result:
            why = scenario.not_offered(house.loopback.definition)
            if why is not None:
                return Result(broker, scenario.name, Verdict.NOT_OFFERED, why)
            async with places:
                return await _run(scenario, _symbol(number), house)

        return list(await asyncio.gather(*(one(number, each) for number, each in enumerate(scenarios))))


@asynccontextmanager
async def a_house(broker: str, databases: Databases) -> AsyncIterator[House]:
    ledger_url = await databases.new()
    async with (
        loopback(broker, ledger_url) as running,
        await open_pool(await databases.new(TEMPLATE), connections_max=CONNECTIONS_MAX) as pool,
        asyncpg.create_pool(ledger_url, min_size=1, max_size=4, command_timeout=60) as ledger,
        httpx.AsyncClient(
            base_url=running.engine.paper_url,
            headers=OPERATOR,
            trust_env=False,
            verify=False,
            timeout=60,
            # A connection that is kept may be closed just as the next call begins.
            limits=httpx.Limits(max_keepalive_connections=0),
        ) as operator,
    ):
        yield House(running, pool, ledger, operator)


async def _run(scenario: Scenario, symbol: Symbol, house: House) -> Result:
    begun, broker = time.monotonic(), house.loopback.definition.name
    excess: list[str] = []
    why = ""
    try:
        async with asyncio.timeout(SECONDS_MAX), house.stage(symbol) as stage:
            await scenario.run(stage)
            await stage.agree()
            excess = await stage.excess_writes()
    except Exception as error:  # noqa: BLE001 - whatever it is, this scenario failed
        why = "".join(traceback.format_exception(error, limit=-3))
    verdict = Verdict.FAILED if why or excess else Verdict.PASSED
    seconds = round(time.monotonic() - begun, 2)
    return Result(broker, scenario.name, verdict, why, seconds, tuple(excess))


def _symbol(number: int) -> Symbol:
    """One that no other scenario of a broker trades: prices are everybody's."""
    return Symbol(f"KT{chr(ord('A') + number // 26)}{chr(ord('A') + number % 26)}")


async def run_all(brokers: Sequence[str], scenarios: Sequence[Scenario]) -> list[Result]:
    """The scenarios at each of the brokers, beside each other."""
    with LocalServices() as services:
        databases = Databases(services)
        await databases.prepare()
        places = asyncio.Semaphore(AT_ONCE_MAX)
        of_each = await asyncio.gather(*(run_broker(broker, scenarios, databases, places) for broker in brokers))
    return [result for results in of_each for result in results]


def write(results: Sequence[Result]) -> None:
    """Keep what came of each broker, for the page of the documentation."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for broker in {result.broker for result in results}:
        rows = [asdict(result) for result in results if result.broker == broker]
        (FOLDER / f"{broker}.json").write_text(json.dumps(rows, indent=1) + "\n")


def table(results: Sequence[Result]) -> str:
    """A line for each scenario at each broker, and what went wrong."""
    lines = [f"{r.verdict:11} {r.seconds:6.1f} s  {r.broker:8} {r.scenario}" for r in results]
    lines += [
        f"\n{r.broker}: {r.scenario}\n{r.why}\n{'; '.join(r.excess_writes)}" for r in results if r.verdict == "failed"
    ]
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    return "\n".join([*lines, ", ".join(f"{count} {verdict}" for verdict, count in counts.items())])
