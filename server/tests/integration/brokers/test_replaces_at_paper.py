"""Replaces from the accept step to the paper broker and back, with both ledgers in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import asyncpg
import pytest

from builders import a_cancel, a_limit_create, a_replace, a_tenant
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.application.settle_unknown import SettleUnknown
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.broker_orders import OrderReport
from openbell_server.domain.identifiers import IntentId, client_order_id
from paper_broker import PRICE, named, running, settings_of, until
from scripted_broker import Desk

SETTLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PaperDesk:
    """An account that trades at a paper broker."""

    desk: Desk
    session: PaperSession

    async def work(self) -> None:
        """Send everything that may be sent, one command after the other."""
        while doors := await self.desk.open_doors():
            await asyncio.gather(*(self.desk.execute.dispatch(self.session, door) for door in doors))

    async def settle(self) -> None:
        """Ask about what is in doubt until nothing is."""
        capabilities = replace(PAPER.capabilities, settle_seconds=SETTLE_SECONDS)
        settle = SettleUnknown(
            PostgresExecutionStore(self.desk.pool), self.desk.track, self.desk.hints, self.desk.execute
        )

        async def nothing_in_doubt() -> bool:
            await settle(self.desk.account, self.session, capabilities)
            return all(state != "UNKNOWN" for _, state, _ in await self.desk.states())

        await until(nothing_in_doubt, 60)

    async def at_broker(self, intent: IntentId) -> OrderReport:
        """The order as the broker has it, and our record after hearing of it."""
        action = await self.desk.pool.fetchval(
            "select action_id from action_states where intent_id = $1 and seq = 1", intent
        )
        report = await self.session.find(self.desk.tenant.account.id, named(client_order_id(action)))
        assert report is not None
        await self.desk.report(report)
        return report


@asynccontextmanager
async def trading(pool: Pool, ledger_url: str, faults: str = "") -> AsyncIterator[PaperDesk]:
    async with running(settings_of(ledger_url, faults)) as session:
        yield PaperDesk(Desk(pool, await a_tenant(pool)), session)


async def agree(desk: PaperDesk, intent: IntentId) -> tuple[str, str | None]:
    """How the order stands, once both records are found to say the same of it."""
    report = await desk.at_broker(intent)
    order = await desk.desk.order(intent)
    assert report.terms is not None
    assert (order["quantity"], order["limit_price"]) == (report.terms.quantity, report.terms.limit_price)
    assert order["time_in_force"] == report.terms.time_in_force
    assert order["filled_quantity"] == report.filled_quantity
    return order["standing"], order["close_reason"]


async def test_an_order_is_replaced_until_it_fills_by_its_last_total(pool: Pool, ledger_url: str) -> None:
    async with trading(pool, ledger_url) as desk:
        intent = await desk.desk.accept(a_limit_create("1.00"))
        for quantity in ("11", "1500"):
            await desk.desk.accept(a_replace(intent, "1.10", quantity))
        await desk.work()
        assert await agree(desk, intent) == ("WORKING", None)
        await desk.desk.accept(a_replace(intent, str(PRICE), "2000"))
        await desk.work()
        assert await agree(desk, intent) == ("CLOSED", "FILLED")
        assert (await desk.desk.order(intent))["filled_quantity"] == 2000
        assert {state for _, state, _ in await desk.desk.states()} == {"ACKED"}


FAULTS = {
    "replace_then_hang": "ACKED",
    "replace_then_reset": "ACKED",
    "error_500_after_replace": "ACKED",
    "replace_hang": "FAILED",
    "replace_refuse": "REFUSED",
}


@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("price", ["1.10", str(PRICE)], ids=["rests", "fills"])
async def test_whatever_happens_to_a_replace_both_records_agree_in_the_end_and_a_cancel_still_works(
    pool: Pool, ledger_url: str, fault: str, price: str
) -> None:
    async with trading(pool, ledger_url, f"{fault}=1") as desk:
        intent = await desk.desk.accept(a_limit_create("1.00"))
        await desk.work()
        await desk.desk.accept(a_replace(intent, price, "12"))
        await desk.work()
        await desk.settle()
        assert (await desk.desk.states())[1][:2] == ("REPLACE", FAULTS[fault])
        filled = FAULTS[fault] == "ACKED" and price != "1.10"
        assert await agree(desk, intent) == (("CLOSED", "FILLED") if filled else ("WORKING", None))
        if not filled:
            await desk.desk.accept(a_cancel(intent))
            await desk.work()
            assert await agree(desk, intent) == ("CLOSED", "CANCELED")
        requests = "select count(*) from requests where kind = 'REPLACE'"
        ledger = await asyncpg.connect(ledger_url, timeout=60)
        try:
            assert await ledger.fetchval(requests) == (0 if fault == "replace_hang" else 1)
        finally:
            await ledger.close()
