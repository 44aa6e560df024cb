"""Runs golden scripts on a platform, many at a time, and reads what each ended with.

Ids are replaced by places, and times are left out. Of the events of an order the trades are sorted, states between
accept and end are left out, and of the order's own states the last is kept: a fast report skips some, and may come
before the answer. A command that came after the end of its order has the broker's refusal or ours as its reason: both
are TOO_LATE. A second cancel is answered with the first for five seconds and refused afterwards: both are REPEATED.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import asyncpg
import httpx

from openbell import Action, AsyncClient
from openbell.errors import ApiError
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import ActionId, client_order_id
from proof.golden_scripts import PRICE, Cancel, Order, Price, Replace, Script
from proof.load import clients
from simulation.golden_run import PASSING, TOO_LATE

# More at a time overload two busy cores: then commands arrive later than the two seconds for which they are valid.
AT_ONCE: Final = 16
CLIENTS: Final = 8
LOOK_SECONDS: Final = 0.25
AFTERMATH_SECONDS: Final = 4.0
REST_SECONDS_MAX: Final = 120
CALL_SECONDS: Final = 60
# How far an account is, by us and by the broker.
_OURS: Final = """
select a.account_id,
    (select count(*) from openbell.action_states s
        where s.account_id = a.account_id and s.settled_at is null and s.flagged_at is null) as moving,
    (select count(*) from openbell.action_states s
        where s.account_id = a.account_id and s.settled_at is null and s.flagged_at is not null) as flagged,
    (select count(*) from openbell.orders o where o.account_id = a.account_id and o.standing <> 'CLOSED') as open,
    (select count(*) from openbell.executions e where e.account_id = a.account_id) as executions,
    (select count(*) from openbell.execution_changes c where c.account_id = a.account_id) as changes
from openbell.accounts a
"""
_THEIRS: Final = """
select account_id, count(*) filter (where status = 'WORKING') as open,
    sum((select count(*) from executions e where e.order_number = o.number)) as executions,
    sum((select count(*) from execution_changes c where c.order_number = o.number)) as changes
from orders o group by account_id
"""
_ACTIONS: Final = """
select account_id, intent_id, seq, action_id, action_type, state, reason_code, broker_code,
    flagged_at is not null as flagged
from openbell.action_states order by account_id, action_no
"""
_ORDERS: Final = "select * from openbell.orders"
_EVENTS: Final = (
    "select account_id, intent_id, seq, kind, body from openbell.account_events order by account_id, event_no"
)
_POSITIONS: Final = "select account_id, symbol, quantity from openbell.positions where quantity <> 0"
_AT_BROKER: Final = """
select account_id, client_order_id, status, filled_quantity, quantity from orders order by account_id, number
"""
_REQUESTS: Final = """
select account_id, kind, count(*) from requests where kind <> 'SIGN_IN' group by account_id, kind order by kind
"""
Row = asyncpg.Record


@dataclass
class Watch:
    """Looks at all accounts again and again, so that no script asks for itself."""

    ours: "asyncpg.Connection[Row]"
    theirs: "asyncpg.Connection[Row]"
    resting: set[UUID] = field(default_factory=set)
    flagged: set[UUID] = field(default_factory=set)
    begun: int = 0
    ended: int = 0
    looked: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self) -> None:
        while True:
            self.begun += 1
            # The broker first: what it did until then is at most what we know of it afterwards.
            theirs = {row["account_id"]: row for row in await self.theirs.fetch(_THEIRS)}
            ours = await self.ours.fetch(_OURS)
            self.flagged = {row["account_id"] for row in ours if row["flagged"]}
            self.resting = {row["account_id"] for row in ours if _is_at_rest(row, theirs.get(row["account_id"]))}
            self.ended = self.begun
            async with self.looked:
                self.looked.notify_all()
            await asyncio.sleep(LOOK_SECONDS)

    async def until_at_rest(self, account_id: UUID) -> str:
        """Wait for a look that began after this; why the script cannot go on, if it cannot."""
        after = self.begun
        try:
            async with asyncio.timeout(REST_SECONDS_MAX), self.looked:
                await self.looked.wait_for(lambda: self.ended > after and account_id in self.resting)
        except TimeoutError:
            return "does not come to rest"
        return "waits for a person" if account_id in self.flagged else ""


def _is_at_rest(ours: Row, theirs: Row | None) -> bool:
    if ours["moving"]:
        return False
    known = ("open", "executions", "changes")
    return bool(ours["flagged"]) or all(ours[name] == (theirs[name] if theirs else 0) for name in known)


@dataclass
class Runner:
    """Runs scripts on one platform."""

    platform: LocalPlatform
    clients: Sequence[AsyncClient]
    broker: httpx.AsyncClient
    watch: Watch
    # The api's answers to each script, step by step.
    answers: dict[int, list[str]] = field(default_factory=dict)
    latest: dict[int, Action] = field(default_factory=dict)
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def run(self, script: Script, account_id: UUID) -> None:
        async with self.places:
            await self._prepare(script, account_id)
            said = self.answers.setdefault(script.number, [])
            for step in script.steps:
                if isinstance(step, Price):
                    await self._set_price(script, step)
                else:
                    said.append(await self._submit(script, account_id, step, self.latest.get(script.number)))
                trouble = await self.watch.until_at_rest(account_id)
                if script.has_aftermath and not trouble:
                    await asyncio.sleep(AFTERMATH_SECONDS)
                    trouble = await self.watch.until_at_rest(account_id)
                if trouble:
                    said.append(trouble)
                    return

    async def _prepare(self, script: Script, account_id: UUID) -> None:
        await self._set_price(script, Price(PRICE))
        if script.faults:
            await self._put(f"/accounts/{account_id}/faults", {"seed": 1, "faults": script.faults})
        if script.is_strict:
            await self._put(f"/accounts/{account_id}/rules", {"shorting": False, "any_tick": False})

    async def _set_price(self, script: Script, step: Price) -> None:
        size = {} if step.size is None else {"size": step.size}
        await self._put(f"/prices/{script.symbol}", {"price": step.price, **size})

    async def _put(self, path: str, body: object) -> None:
        (await self.broker.put(path, json=body)).raise_for_status()

    async def _submit(self, script: Script, account_id: UUID, step: Order | Replace | Cancel, of: Action | None) -> str:
        """The api's answer; keeps the action, which is the last of its intent."""
        name = type(step).__name__
        try:
            action = await self._command(script, str(account_id), step, of)
        except ApiError as refused:
            is_second = isinstance(step, Cancel) and of is not None and of.action_type == "CANCEL"
            return f"{name} REPEATED" if is_second and refused.code == "order_terminal" else f"{name} {refused.code}"
        self.latest[script.number] = action
        return f"{name} REPEATED" if of is not None and action.id == of.id else f"{name} accepted"

    async def _command(
        self, script: Script, account_id: str, step: Order | Replace | Cancel, of: Action | None
    ) -> Action:
        client = self.clients[script.number % len(self.clients)]
        if isinstance(step, Order):
            return await client.create_intent(
                symbol=script.symbol, side=step.side, spec=step.spec, allow_duplicate=True, account_id=account_id
            )
        assert of is not None
        if isinstance(step, Replace):
            return await client.replace_intent(of.intent_id, step.spec, account_id=account_id)
        return await client.cancel_intent(of.intent_id, account_id=account_id)


async def run_scripts(
    platform: LocalPlatform, scripts: Sequence[Script], make_runner: Callable[..., Runner] = Runner
) -> dict[str, list[object]]:
    """What each script ended with, by its name; the platform has an account for each, at its broker."""
    ledger = platform.stack.environment["OPENBELL_PAPER_DATABASE_URL"]
    accounts = dict(zip((script.number for script in scripts), platform.seeded.account_ids, strict=True))
    async with AsyncExitStack() as stack:
        ours = await asyncpg.connect(platform.owner_url, timeout=CALL_SECONDS)
        stack.push_async_callback(ours.close)
        theirs = await asyncpg.connect(ledger, timeout=CALL_SECONDS)
        stack.push_async_callback(theirs.close)
        broker = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=platform.paper_url, headers=platform.paper_operator, timeout=CALL_SECONDS, trust_env=False
            )
        )
        opened = await stack.enter_async_context(clients(platform, CLIENTS))
        runner = make_runner(platform, opened, broker, Watch(ours, theirs))
        watching = asyncio.ensure_future(runner.watch.run())
        try:
            await asyncio.gather(*(runner.run(script, accounts[script.number]) for script in scripts))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        ends = await _read_ends(ours, theirs)
    return {
        script.name: [{"said": runner.answers[script.number]}, *ends.lines(accounts[script.number])]
        for script in scripts
    }


@dataclass(frozen=True)
class _Ends:
    actions: dict[UUID, list[Row]]
    orders: dict[UUID, Row]
    events: dict[UUID, list[Row]]
    positions: dict[UUID, list[Row]]
    at_broker: dict[UUID, list[Row]]
    requests: dict[UUID, list[Row]]

    def lines(self, account_id: UUID) -> list[object]:
        by_intent: dict[UUID, list[Row]] = {}
        for row in self.actions.get(account_id, []):
            by_intent.setdefault(row["intent_id"], []).append(row)
        copies = Counter(row["client_order_id"] for row in self.at_broker.get(account_id, []))
        lines: list[object] = [self._intent(intent_id, rows, copies) for intent_id, rows in by_intent.items()]
        positions = [f"{_plain(row['quantity'])}" for row in self.positions.get(account_id, [])]
        at_broker = [
            f"{row['status']} filled {_plain(row['filled_quantity'])} of {_plain(row['quantity'])}"
            for row in self.at_broker.get(account_id, [])
        ]
        requests = [f"{row['kind']} {row['count']}" for row in self.requests.get(account_id, [])]
        # How often balances are read depends on the time that a script takes.
        others = sorted(
            EventKind(row["kind"]).name
            for row in self.events.get(account_id, [])
            if row["intent_id"] is None and row["kind"] != EventKind.BALANCES_CHANGED
        )
        return [*lines, {"position": positions, "at broker": at_broker, "requests": requests, "other events": others}]

    def _intent(self, intent_id: UUID, rows: list[Row], copies: Counter[str | None]) -> object:
        order = self.orders[intent_id]
        events = [row for row in self.events.get(rows[0]["account_id"], []) if row["intent_id"] == intent_id]
        trades = [json.loads(row["body"]) for row in events if row["kind"] == EventKind.BROKER_TRADE]
        return {
            "actions": [_action_words(row) for row in rows],
            "order": f"{order['order_side']} {order['order_type']} {order['standing']} {order['close_reason'] or '-'}"
            f" {order['certainty']} filled {_plain(order['filled_quantity'])} for {_plain(order['filled_value'])}"
            f" of {_plain(order['quantity'])}",
            "trades": sorted(f"{told['kind']} {told['quantity']} at {told['price']}" for told in trades),
            "events": _told(events),
            # A broker that keeps no ids of ours is counted by the account.
            "orders at the broker": copies[client_order_id(ActionId(rows[0]["action_id"]))],
        }


async def _read_ends(ours: "asyncpg.Connection[Row]", theirs: "asyncpg.Connection[Row]") -> _Ends:
    return _Ends(
        actions=_by_account(await ours.fetch(_ACTIONS)),
        orders={row["order_id"]: row for row in await ours.fetch(_ORDERS)},
        events=_by_account(await ours.fetch(_EVENTS)),
        positions=_by_account(await ours.fetch(_POSITIONS)),
        at_broker=_by_account(await theirs.fetch(_AT_BROKER)),
        requests=_by_account(await theirs.fetch(_REQUESTS)),
    )


def was_late(script: Script, lines: Sequence[object]) -> bool:
    """Whether a command missed its time at the broker or waited in vain, and the script's plan is not the cause."""
    text = json.dumps(lines)
    return " expired" in text or ("NO_ANSWER" in text and not script.faults)


def _by_account(rows: Iterable[Row]) -> dict[UUID, list[Row]]:
    found: dict[UUID, list[Row]] = {}
    for row in rows:
        found.setdefault(row["account_id"], []).append(row)
    return found


def _action_words(row: Row) -> str:
    code = f"{row['reason_code'] or '-'} {row['broker_code'] or '-'}"
    if row["state"] == "REFUSED" and row["action_type"] != "CREATE" and row["broker_code"] in {None, "order_closed"}:
        code = "TOO_LATE" if row["reason_code"] in TOO_LATE else code
    return f"{row['action_type']} {row['state']} {code}{' flagged' if row['flagged'] else ''}"


def _told(events: Sequence[Row]) -> list[str]:
    """Actions as they were accepted and settled, and the order as it was last reported."""
    bodies: list[tuple[Row, dict[str, Any]]] = [(row, json.loads(row["body"] or "{}")) for row in events]
    actions = [
        f"action {row['seq']} {body.get('status', 'accepted')}"
        for row, body in bodies
        if row["kind"] == EventKind.INTENT_ACTION and body.get("status") not in PASSING
    ]
    orders = [f"order {body['status']}" for row, body in bodies if row["kind"] == EventKind.BROKER_ORDER]
    return actions + orders[-1:]


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"
