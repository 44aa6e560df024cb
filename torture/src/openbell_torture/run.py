"""Runs a bot against the simulator until it ends or its time is over, and compares."""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final
from uuid import UUID

from openbell_exchange.history import History
from openbell_torture.alpaca.application import AlpacaApplication
from openbell_torture.alpaca.wire import key_id_of
from openbell_torture.compare import Action, Finding, actions_of, findings_of
from openbell_torture.faults import Plan
from openbell_torture.faulty_engine import FaultyEngine
from openbell_torture.journal import Journal
from openbell_torture.serving import serving

ACCOUNT: Final = UUID(int=0x0B311)
_SECRET: Final = "torture"  # noqa: S105 - of a simulator on this machine
_TERM_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one run of a bot."""

    command: Sequence[str]
    plan_name: str
    plan: Plan
    seconds: float
    # None: it was still running when its time was over.
    exit_code: int | None
    journal: Journal
    orders: Sequence[History]
    actions: Sequence[Action]
    findings: Sequence[Finding]


async def run(command: Sequence[str], plan_name: str, plan: Plan, seconds: float) -> Result:
    journal = Journal()
    engine = FaultyEngine(plan, journal.met)
    async with serving(AlpacaApplication(engine, journal)) as address:
        with tempfile.TemporaryDirectory() as folder:
            belief = Path(folder) / "belief.json"
            journal.begin()
            exit_code = await _run_bot(command, {**os.environ, **_settings(address, belief)}, seconds)
            took = journal.now
            journal.believed = _read_belief(belief)
        engine.close()
    orders = engine.exchange.list_orders(ACCOUNT)
    actions = actions_of(journal, orders)
    return Result(
        command=command,
        plan_name=plan_name,
        plan=plan,
        seconds=took,
        exit_code=exit_code,
        journal=journal,
        orders=orders,
        actions=actions,
        findings=findings_of(journal, orders, actions),
    )


def _settings(address: str, belief: Path) -> dict[str, str]:
    """Under every name that bots read them by."""
    key = key_id_of(ACCOUNT)
    stream = address.replace("http://", "ws://") + "/stream"
    return {
        "APCA_API_BASE_URL": address,
        "APCA_API_DATA_URL": address,
        "APCA_API_STREAM_URL": stream,
        "APCA_API_KEY_ID": key,
        "APCA_API_SECRET_KEY": _SECRET,
        "ALPACA_BASE_URL": address,
        "ALPACA_API_KEY": key,
        "ALPACA_SECRET_KEY": _SECRET,
        "OPENBELL_TORTURE_BELIEF": str(belief),
        # A proxy would not find this machine.
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


async def _run_bot(command: Sequence[str], environment: dict[str, str], seconds: float) -> int | None:
    """Its exit code, or None if it had to be ended."""
    bot = await asyncio.create_subprocess_exec(*command, env=environment, start_new_session=True)
    try:
        return await asyncio.wait_for(bot.wait(), seconds)
    except TimeoutError:
        return None
    finally:
        # Its children too.
        _signal(bot.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(bot.wait(), _TERM_SECONDS)
        _signal(bot.pid, signal.SIGKILL)
        await bot.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _read_belief(path: Path) -> dict[str, Decimal] | None:
    """Shares by symbol, as the bot wrote them last; None if it wrote nothing that can be read."""
    try:
        content = json.loads(path.read_text())
        return {str(symbol): Decimal(str(quantity)) for symbol, quantity in content.items()}
    except (OSError, ValueError, AttributeError, InvalidOperation):
        return None
