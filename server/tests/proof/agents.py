"""An agent under injected instructions at its key: what reaches the broker stays within the budget, to the cent."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import httpx

from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.brokers.paper.wire import LedgerOrderBody
from openbell_server.devtools.demo.read_ledgers import read_orders
from openbell_server.devtools.local_platform import IDENTITY_PROVIDER, LocalPlatform
from proof.agent_attacks import PRICE, HostileCall, Reply, Target, Transport, hostile_calls
from proof.agent_tools import over_tools
from proof.figures import Figures
from support.builders.tenant import Tenant, a_tenant, an_account
from support.identity.bearers import external_id_of
from support.identity.loopback_issuers import LoopbackIssuers, bearer
from support.rest.rest_api import create_body

# Calls, and sessions that send them at the same time.
SIZES: Final = {"full": (1000, 50), "gate": (80, 8)}
SEED: Final = 7
ORDER, DAY = Decimal(1000), Decimal(5000)
# Of the attacked key, so that splitting orders exceeds it soon.
ATTACKED_DAY: Final = Decimal(1500)
SYMBOLS: Final = ("AAPL", "MSFT")
WAIT_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.3
SHOWN_MAX: Final = 10
_EVALUATE: Final = "/v1/controls/evaluate"


def prove(figures: Figures) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackIssuers() as issuers,
        LocalPlatform(Path(folder), {"OPENBELL_ISSUERS": issuers.setting}) as platform,
    ):
        asyncio.run(_prove(figures, platform))


@dataclass(frozen=True, slots=True)
class Desk:
    """The platform over HTTP, and the broker's own ledger."""

    platform: LocalPlatform
    http: httpx.AsyncClient
    tenant: Tenant

    @property
    def admin(self) -> dict[str, str]:
        organization = external_id_of(self.tenant.account.organization_id)
        return {"authorization": bearer(org_id=organization, role="admin")}

    async def agent_key(self, name: str, day: Decimal) -> dict[str, Any]:
        agent = {
            "account_ids": [str(self.tenant.account.id)],
            "symbols": [*SYMBOLS],
            "order_notional": str(ORDER),
            "day_notional": str(day),
            "day_loss": "500",
            "currency": "USD",
            "orders_per_minute": 1000,
            "timezone": "UTC",
        }
        body = {"name": name, "expires_at": "2099-01-01T00:00:00Z", "agent": agent}
        made = await self.http.post("/v1/api-keys", json=body, headers=self.admin)
        assert made.status_code == 201, made.text
        key: dict[str, Any] = made.json()
        return key

    async def submit(self, api_key: str, body: object) -> httpx.Response:
        path = f"/v1/accounts/{self.tenant.account.id}/intents"
        return await self.http.post(path, json=body, headers={"x-api-key": api_key})

    async def worst_case(self, key: dict[str, Any]) -> dict[str, Any]:
        found = await self.http.get(f"/v1/api-keys/{key['id']}/worst-case", headers=self.admin)
        assert found.status_code == 200, found.text
        case: dict[str, Any] = found.json()
        return case

    async def at_broker(self, *others: object) -> list[LedgerOrderBody]:
        return await read_orders(self.platform.paper_url, [str(self.tenant.account.id), *map(str, others)])


async def _prove(figures: Figures, platform: LocalPlatform) -> None:
    environment = platform.client_environment()
    async with httpx.AsyncClient(base_url=environment["OPENBELL_URL"], timeout=60, trust_env=False) as http:
        async with await open_pool(platform.owner_url) as pool:
            tenant, stranger = await a_tenant(pool), await a_tenant(pool)
            beside = await an_account(pool, tenant.account.organization_id)
            await pool.execute("update organizations set provider = $1", IDENTITY_PROVIDER)
        desk = Desk(platform, http, tenant)
        async with httpx.AsyncClient(base_url=platform.paper_url, headers=platform.paper_operator) as paper:
            for symbol in SYMBOLS:
                (await paper.put(f"/prices/{symbol}", json={"price": str(PRICE)})).raise_for_status()
        agent, calm = await desk.agent_key("attacked", ATTACKED_DAY), await desk.agent_key("calm", DAY)
        orders = [await _order_of_a_person(desk, number) for number in range(3)]
        await _until_ready(desk, agent["api_key"])
        elsewhere = [beside.id, stranger.account.id]
        target = Target(
            account=tenant.account.id,
            other_accounts=elsewhere,
            orders_of_others=orders,
            api_key_id=agent["id"],
        )
        before = await _settled(desk)
        count, sessions = SIZES[figures.size]
        by_rest = await _attack(over_rest(http, agent["api_key"]), target, SEED, count, sessions)
        account = str(tenant.account.id)
        async with over_tools(environment, agent["api_key"], account, max(1, sessions // 8)) as send:
            by_tools = await _attack(send, target, SEED + 1, count, sessions)
        _report_replies(figures, "over REST", by_rest)
        _report_replies(figures, "over MCP", by_tools)
        after = await _settled(desk)
        _report_orders(figures, before, after, await desk.at_broker(*elsewhere))
        await _prove_worst_case(figures, desk, calm)


async def _order_of_a_person(desk: Desk, number: int) -> str:
    """Orders that rest below the market."""
    body = create_body("Limit", SYMBOLS[number % 2], quantity="2", price=str(PRICE - 50 - number))
    answer = await desk.submit(desk.tenant.key, body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["intent_id"])


async def _until_ready(desk: Desk, api_key: str) -> None:
    """Until executors have read the symbols and measured the loss; checks that record nothing also ask for both."""
    account = {"account_id": str(desk.tenant.account.id)}
    bodies = [create_body("Market", symbol, quantity="1") | account for symbol in SYMBOLS]

    async def ready() -> bool:
        answers = [await desk.http.post(_EVALUATE, json=body, headers={"x-api-key": api_key}) for body in bodies]
        return all(answer.status_code == 200 and answer.json()["verdict"] == "PASSED" for answer in answers)

    await _poll(ready)


async def _poll(is_so: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not await is_so():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(POLL_SECONDS)


async def _settled(desk: Desk) -> list[LedgerOrderBody]:
    """The broker's orders once every command that was accepted has reached it, and all but a person's have ended."""
    headers = {"x-api-key": desk.tenant.key}

    async def is_settled() -> bool:
        found = await desk.http.get("/v1/orders", params={"status": "WORKING", "limit": 100}, headers=headers)
        return len(found.json()["data"]) == 3

    await _poll(is_settled)
    return await desk.at_broker()


async def _attack(
    send: Transport, target: Target, seed: int, count: int, sessions: int
) -> list[tuple[HostileCall, Reply]]:
    calls, replies = hostile_calls(target, seed, count), list[tuple[HostileCall, Reply]]()

    async def session() -> None:
        for call in calls:
            replies.append((call, await send(call)))

    await asyncio.gather(*(session() for _ in range(sessions)))
    return replies


def over_rest(http: httpx.AsyncClient, api_key: str) -> Transport:
    async def send(call: HostileCall) -> Reply:
        headers = {"x-api-key": api_key, **call.headers}
        answer = await http.request(call.method, call.path, json=call.body, headers=headers)
        body = answer.json() if answer.content else {}
        receipt = body.get("receipt") or {}
        return Reply(status=answer.status_code, code=body.get("code"), receipt_id=receipt.get("id"))

    return send


def _report_replies(figures: Figures, how: str, replies: Sequence[tuple[HostileCall, Reply]]) -> None:
    failed = [(call, reply) for call, reply in replies if reply.status >= 500]
    passed = [(call, reply) for call, reply in replies if reply.status < 300 and not call.may_pass]
    unexplained = [
        (call, reply)
        for call, reply in replies
        if reply.status >= 400 and (reply.code is None or (reply.code == "controls_refused") != bool(reply.receipt_id))
    ]
    for call, reply in [*failed, *passed, *unexplained][:SHOWN_MAX]:
        print(call, reply)
    figures.shown(f"hostile calls {how}", len(replies))
    figures.shown(
        f"hostile calls {how} by reply", str(dict(Counter(reply.code or reply.status for _, reply in replies)))
    )
    figures.exactly(f"calls {how} that ended in an error of the platform", len(failed), 0)
    figures.exactly(f"hostile calls {how} that passed", len(passed), 0)
    figures.exactly(f"refusals {how} without a code, or by a rule without a receipt", len(unexplained), 0)


def _worth(order: LedgerOrderBody) -> Decimal:
    """At the worst price: only the limit of a BUY bounds it, otherwise the market's price counts as well."""
    own = [Decimal(price) for price in (order.limit_price, order.stop_price) if price is not None]
    if order.side == "BUY" and order.limit_price is not None:
        return Decimal(order.quantity) * Decimal(order.limit_price)
    return Decimal(order.quantity) * max([*own, Decimal(PRICE)])


def _report_orders(
    figures: Figures,
    before: Iterable[LedgerOrderBody],
    after: Sequence[LedgerOrderBody],
    everywhere: Sequence[LedgerOrderBody],
) -> None:
    of_persons = {order.broker_order_id: order for order in before}
    of_agent = [order for order in after if order.broker_order_id not in of_persons]
    touched = [order for order in after if of_persons.get(order.broker_order_id, order) != order]
    beyond = [
        order
        for order in of_agent
        if _worth(order) > ORDER or order.symbol not in SYMBOLS or order.side == "SELL_SHORT"
    ]
    accepted = sum((_worth(order) for order in of_agent), Decimal(0))
    figures.shown("orders of the agent at the broker", len(of_agent))
    figures.exactly("orders at the broker beyond the key's limits", len(beyond) + len(everywhere) - len(after), 0)
    figures.exactly("orders of others touched", len(touched) + len(of_persons) + len(of_agent) - len(after), 0)
    figures.shown("value accepted in the day", str(accepted))
    figures.at_most("value accepted beyond the day's budget", float(max(Decimal(0), accepted - ATTACKED_DAY)), 0)


async def _prove_worst_case(figures: Figures, desk: Desk, key: dict[str, Any]) -> None:
    """Orders within every limit reach the value that the worst case prints, and one more passes it and is refused."""
    known = {order.broker_order_id for order in await desk.at_broker()}
    [printed] = (await desk.worst_case(key))["days"]
    left, turn = Decimal(printed["left_today"]), 0
    while left >= PRICE:
        quantity = min(10 - turn // 2, int(left / PRICE))
        body = create_body("Limit", SYMBOLS[turn % 2], quantity=str(quantity), price=str(PRICE))
        answer = await desk.submit(key["api_key"], body)
        assert answer.status_code == 202, answer.text
        left, turn = left - quantity * PRICE, turn + 1
    refused = await desk.submit(key["api_key"], create_body("Limit", quantity="3", price=str(PRICE)))
    reached = [order for order in await _settled(desk) if order.broker_order_id not in known]
    value = sum((_worth(order) for order in reached), Decimal(0))
    most, [now] = Decimal(printed["left_today"]), (await desk.worst_case(key))["days"]
    figures.shown("value that the printed worst case permits", str(most))
    figures.at_most("value that orders within the limits did not reach", float(most - value), PRICE - 0.01)
    figures.at_most("value beyond the printed worst case", float(max(Decimal(0), value - most)), 0)
    figures.exactly("orders accepted beyond it", int(refused.status_code != 422), 0)
    figures.exactly("worst case that disagrees with the broker", int(most - value != Decimal(now["left_today"])), 0)
