"""`brokers try` measures of each simulated broker what it does, finds out one that lies, and leaves nothing open."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
import httpx

from conformance.executor import Hurried
from conformance.run import Databases
from conformance.stage import hurried
from loopbacks import Loopback, loopback
from openbell_server.adapters.broker_trials.trial_rows import signed_row, signing_key
from openbell_server.application.broker_trials import measure
from openbell_server.application.broker_trials.subject import Measurement
from openbell_server.devtools.child_processes import bound_to_us
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType
from openbell_server.processes.brokers.trial import TrialPlan, run_trial
from proof.figures import Figures
from support.brokers.paper_broker import OPERATOR, until

SYMBOL: Final = Symbol("AAPL")
BROKERS: Final = {
    "full": ("paper", "paper-w", "paper-b", "paper-c", "alpaca", "tradier"),
    "gate": ("alpaca", "paper-b"),
}
# After how many commands a trial is killed.
KILLS: Final = {"full": range(1, 13), "gate": ()}
LAG_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 20.0
TRIAL_SECONDS: Final = 300.0
# Of which the register of brokers is made.
ROWS: Final = Path("docs/brokers/simulated.jsonl")
_ENDED: Final = "('FILLED', 'CANCELED', 'EXPIRED', 'REJECTED')"


@dataclass(frozen=True, slots=True)
class Lie:
    """What a broker documents and does not do, or does all at once; which measurement must show it."""

    broker: str
    shown_by: str
    documented: Mapping[str, object] = field(default_factory=dict)
    creates: IdClass | None = None
    replaces: IdClass | None = None
    faults: Mapping[str, float] = field(default_factory=dict)


LIES: Final = (
    Lie("paper-b", "id of an order, sent again", creates=IdClass.ENFORCED),
    Lie("paper-b", "order after its time", {"enforces_valid_until": True}),
    Lie("alpaca", "id of an order, sent again", creates=IdClass.ECHOED),
    Lie("paper-w", "id of an order, sent again", creates=IdClass.ENFORCED),
    Lie("paper-w", "look-up", {"look_up": LookUp.EVERY_ORDER}),
    Lie("paper-b", "id of a replace, sent again", replaces=IdClass.ENFORCED),
    Lie("paper-b", "cancel by our id", {"cancels_by_client_id": True}),
    Lie("tradier", "id of an order, sent again", creates=IdClass.ENFORCED),
    Lie("paper", "feed", faults={"mute_ms": 600_000}),
    Lie("paper", "order without an answer is found", faults={"find_lag_ms": 6_000}),
    Lie("paper", "replace", faults={"replace_refuse": 1.0}),
)

LIES_AT: Final = {"full": len(LIES), "gate": 3}


def prove(figures: Figures) -> None:
    measure.LAG_SECONDS, measure.PATIENCE_SECONDS = LAG_SECONDS, PATIENCE_SECONDS
    asyncio.run(_prove(figures))


async def _prove(figures: Figures) -> None:
    brokers = BROKERS[figures.size]
    with LocalServices() as services, tempfile.TemporaryDirectory() as folder:
        databases = Databases(services)
        async with AsyncExitStack() as stack:
            desks = {
                broker: _Desk(url, await stack.enter_async_context(loopback(broker, url)), Path(folder))
                for broker in brokers
                for url in [await databases.new()]
            }
            if figures.size == "full":
                ROWS.write_text("")
            lies = [lie for lie in LIES if lie.broker in desks][: LIES_AT[figures.size]]
            await asyncio.gather(
                _honest(figures, desks), _lying(figures, lies, desks), _killed(figures, desks["alpaca"])
            )
            left = [await desk.left_open() for desk in desks.values()]
            figures.exactly("orders left open at all brokers", sum(left), 0)
            orders = [await desk.count("true") for desk in desks.values()]
            figures.shown("orders at all brokers", sum(orders))


@dataclass(frozen=True, slots=True)
class _Desk:
    """A simulated broker, and the folder of the trials."""

    ledger_url: str
    running: Loopback
    folder: Path

    async def trial(self, lie: Lie | None = None) -> list[Measurement]:
        account_id, definition = AccountId(uuid4()), self.running.definition
        if lie is not None:
            able = hurried(definition).capabilities
            definition = Hurried(definition, _with(able, lie))
            if lie.faults:
                await self._misbehave(account_id, lie.faults)
        plan = TrialPlan(
            definition=definition,
            address=self.running.addresses[Environment.PAPER],
            secrets=self.running.secrets(account_id) or Secrets({}),
            symbol=SYMBOL,
            quantity=Decimal(1),
            price=Decimal("1.00"),
            folder=self.folder,
            account_id=account_id,
        )
        return await run_trial(plan)

    async def left_open(self) -> int:
        return await self.count(f"status not in {_ENDED}")

    async def count(self, condition: str) -> int:
        connection = await asyncpg.connect(self.ledger_url, timeout=60)
        try:
            counted: int = await connection.fetchval(f"select count(*) from orders where {condition}")
            return counted
        finally:
            await connection.close()

    async def _misbehave(self, account_id: AccountId, faults: Mapping[str, float]) -> None:
        url = f"{self.running.engine.paper_url}/accounts/{account_id}/faults"
        async with httpx.AsyncClient(headers=OPERATOR, trust_env=False, timeout=60) as operator:
            (await operator.put(url, json={"seed": 0, "faults": faults})).raise_for_status()


async def _honest(figures: Figures, desks: Mapping[str, _Desk]) -> None:
    results = await asyncio.gather(*(desk.trial() for desk in desks.values()))
    for broker, measurements in zip(desks, results, strict=True):
        differ = [each for each in measurements if not each.agrees]
        for each in differ:
            print(broker, each, flush=True)
        if figures.size == "full":
            _keep(broker, measurements)
        figures.shown(f"{broker}: measurements", len(measurements))
        figures.exactly(f"{broker}: measurements unlike what it was configured to do", len(differ), 0)
    if figures.size == "full":
        print("docs/brokers/simulated.jsonl is new: run make generate", flush=True)


def _keep(broker: str, measurements: list[Measurement]) -> None:
    """A row for the register."""
    with tempfile.TemporaryDirectory() as folder:
        row = signed_row(
            signing_key(Path(folder) / "key"),
            broker=broker,
            is_sandbox=False,
            version=version("openbell-server"),
            at=datetime.now(UTC),
            measurements=measurements,
        )
    with ROWS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


async def _lying(figures: Figures, lies: list[Lie], desks: Mapping[str, _Desk]) -> None:
    results = await asyncio.gather(*(desks[lie.broker].trial(lie) for lie in lies))
    found = 0
    for lie, measurements in zip(lies, results, strict=True):
        differ = {each.name for each in measurements if not each.agrees}
        found += differ == {lie.shown_by}
        if differ != {lie.shown_by}:
            print(f"{lie}: {differ}", flush=True)
    figures.exactly("configured differences", len(lies), len(lies))
    figures.exactly("of these found, each by its measurement and no other", found, len(lies))


async def _killed(figures: Figures, desk: _Desk) -> None:
    """The command itself, killed after so many commands, and run again."""
    kills = KILLS[figures.size]
    if not kills:
        return
    ended = await asyncio.gather(*(_kill(desk, commands) for commands in kills))
    figures.exactly("trials killed, and run again to the end", sum(code == 0 for code, _ in ended), len(kills))
    figures.at_least("orders that a killed trial left open", sum(left for _, left in ended), 1)


async def _kill(desk: _Desk, commands: int) -> tuple[int | None, int]:
    account_id = AccountId(uuid4())
    secrets = desk.running.secrets(account_id)
    assert secrets is not None

    def sent() -> int:
        return sum(write.account_id == str(account_id) for write in desk.running.writes)

    async def is_far() -> bool:
        return sent() >= commands

    process = await _start(desk, secrets)
    try:
        await until(is_far, TRIAL_SECONDS)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    left = await desk.count(f"account_id = '{account_id}' and status not in {_ENDED}")
    again = await _start(desk, secrets)
    return await asyncio.wait_for(again.wait(), TRIAL_SECONDS), left


async def _start(desk: _Desk, secrets: Secrets) -> asyncio.subprocess.Process:
    given = {f"OPENBELL_TRY_{name.upper()}": value for name, value in secrets.items()}
    command = [sys.executable, "-m", "openbell_server", "brokers", "try", "alpaca", "--symbol", SYMBOL]
    address = desk.running.addresses[Environment.PAPER]
    return await asyncio.create_subprocess_exec(
        *bound_to_us(None, signal.SIGKILL),
        *command,
        "--address",
        address,
        env={**os.environ, **given},
        cwd=desk.folder,
        stdout=asyncio.subprocess.DEVNULL,
    )


def _with(able: Any, lie: Lie) -> Any:
    ids = dict(able.id_classes)
    if lie.creates is not None:
        ids[ActionType.CREATE] = lie.creates
    if lie.replaces is not None:
        ids[ActionType.REPLACE] = lie.replaces
    return replace(able, id_classes=ids, **lie.documented)
