"""The same scripts through our own interface and through the front for Alpaca's bots, and what each ends with."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx

from openbell import Action
from openbell.intents.orders import Spec
from openbell_server.devtools.local_platform import LocalPlatform
from proof.golden_platform import CALL_SECONDS, Runner, run_scripts, was_late
from proof.golden_scripts import Cancel, Order, Replace, Script, script_of

SHOWN_MAX: Final = 5
_TYPES: Final = {"Market": "market", "Limit": "limit", "Stop": "stop", "StopLimit": "stop_limit"}
_FIELDS: Final = {"quantity": "qty", "price": "limit_price", "stop_price": "stop_price"}
_TIMES: Final = {None: "day", "IMMEDIATE_OR_CANCEL": "ioc", "FILL_OR_KILL": "fok"}


@dataclass
class OwnRunner(Runner):
    """Through our own interface; a replace is of what shall still fill, as at Alpaca."""

    async def _command(
        self, script: Script, account_id: str, step: Order | Replace | Cancel, of: Action | None
    ) -> Action:
        if isinstance(step, Replace):
            assert of is not None
            client = self.clients[script.number % len(self.clients)]
            execution = (await client.intent(of.intent_id, account_id=account_id)).execution
            assert execution is not None
            spec = replace(step.spec, quantity=Decimal(step.spec.quantity) + execution.filled_quantity)
            step = Replace(spec)
        return await super()._command(script, account_id, step, of)


@dataclass
class FrontRunner(Runner):
    """Through the front for Alpaca's bots."""

    # The last order of each script.
    orders: dict[int, str] = field(default_factory=dict)

    async def _submit(self, script: Script, account_id: UUID, step: Order | Replace | Cancel, of: Action | None) -> str:
        order = self.orders.get(script.number, "")
        if isinstance(step, Order):
            body = _body(step.spec) | {"symbol": script.symbol, "side": step.side.lower()}
            answer = await self._ask(account_id, "POST", "/orders", body)
            if answer.status_code == 200:
                self.orders[script.number] = answer.json()["id"]
        elif isinstance(step, Replace):
            answer = await self._ask(account_id, "PATCH", f"/orders/{order}", _terms(step.spec))
        else:
            answer = await self._ask(account_id, "DELETE", f"/orders/{order}")
        return f"{type(step).__name__} {answer.headers.get('openbell-code', 'accepted')}"

    async def _ask(self, account_id: UUID, method: str, path: str, body: object = None) -> httpx.Response:
        environment = self.platform.client_environment()
        headers = {"apca-api-key-id": str(account_id), "apca-api-secret-key": environment["OPENBELL_API_KEY"]}
        async with httpx.AsyncClient(
            base_url=environment["OPENBELL_URL"], timeout=CALL_SECONDS, trust_env=False
        ) as client:
            return await client.request(method, f"/alpaca/v2{path}", headers=headers, json=body)


def _terms(spec: Spec) -> dict[str, str]:
    ((_, content),) = spec.to_wire().items()
    return {_FIELDS[name]: text for name, text in content.items() if name in _FIELDS}


def _body(spec: Spec) -> dict[str, Any]:
    return {**_terms(spec), "type": _TYPES[type(spec).__name__], "time_in_force": _TIMES[spec.time_in_force]}


def without_faults(number: int) -> Script:
    """The broker's faults are not the front's, and take long."""
    return replace(script_of(number), faults={})


def differing(folder: Path, count: int) -> list[str]:
    """The scripts that end otherwise through the front than through our own interface."""
    scripts = [without_faults(number) for number in range(count)]
    own, front = (_ends(folder, scripts, kind) for kind in (OwnRunner, FrontRunner))
    wrong = [script for script in scripts if own[script.name] != front[script.name]]
    late = [script for script in wrong if was_late(script, [own[script.name], front[script.name]])]
    if late:
        # On a machine that stood still some commands come too late: only those scripts run again.
        own |= _ends(folder, late, OwnRunner)
        front |= _ends(folder, late, FrontRunner)
    names = [script.name for script in wrong if own[script.name] != front[script.name]]
    for name in names[:SHOWN_MAX]:
        print(name, json.dumps(own[name]), json.dumps(front[name]), sep="\n")
    return names


def _ends(folder: Path, scripts: Sequence[Script], kind: Callable[..., Runner]) -> dict[str, list[object]]:
    with LocalPlatform(
        folder,
        {"OPENBELL_ALPACA_FRONT": "true"},
        accounts=len(scripts),
        brokers=[script.broker for script in scripts],
    ) as platform:
        ends = asyncio.run(run_scripts(platform, scripts, kind))
    # What was answered is spelled otherwise: the ledgers are compared.
    return {name: lines[1:] for name, lines in ends.items()}
