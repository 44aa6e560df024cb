"""Replaces from the accept step to the paper broker and back, with both ledgers in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import asyncpg
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.application.execution.settle_unknown import SettleUnknown
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.domain.identifiers import IntentId, client_order_id
from openbell_server.domain.orders.broker_reports import OrderReport
from support.brokers.paper_broker import PRICE, named, running, settings_of, until
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_tenant

SETTLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PaperHarness:
    """An account that trades at a paper broker."""

    harness: Harness
    session: PaperSession

    async def work(self) -> None:
        """Send everything that may be sent, one command after the other."""
        while doors := await self.harness.open_doors():
            await asyncio.gather(*(self.harness.execute.dispatch(self.session, door) for door in doors))

    async def settle(self) -> None:
        """Ask about what is in doubt until nothing is."""
        capabilities = replace(PAPER.capabilities, settle_seconds=SETTLE_SECONDS)
        settle = SettleUnknown(
            PostgresExecutionStore(self.harness.pool), self.harness.track, self.harness.hints, self.harness.execute
        )

        async def nothing_in_doubt() -> bool:
            await settle(self.harness.account, self.session, capabilities)
            return all(state != "UNKNOWN" for _, state, _ in await self.harness.states())

        await until(nothing_in_doubt, 60)

    async def at_broker(self, intent: IntentId) -> OrderReport:
        """The order as the broker has it, and our record after hearing of it."""
        action = await self.harness.pool.fetchval(
            "select action_id from action_states where intent_id = $1 and seq = 1", intent
        )
        report = await self.session.find(self.harness.tenant.account.id, named(client_order_id(action)))
        assert report is not None
        await self.harness.report(report)
        return report


@asynccontextmanager
async def trading(pool: Pool, ledger_url: str, faults: str = "") -> AsyncIterator[PaperHarness]:
    async with running(settings_of(ledger_url, faults)) as session:
        yield PaperHarness(Harness(pool, await a_tenant(pool)), session)


async def agree(harness: PaperHarness, intent: IntentId) -> tuple[str, str | None]:
    """How the order stands, once both records are found to say the same of it."""
    report = await harness.at_broker(intent)
    order = await harness.harness.order(intent)
    assert report.terms is not None
    assert (order["quantity"], order["limit_price"]) == (report.terms.quantity, report.terms.limit_price)
    assert order["time_in_force"] == report.terms.time_in_force
    assert order["filled_quantity"] == report.filled_quantity
    return order["standing"], order["close_reason"]


async def test_an_order_is_replaced_until_it_fills_by_its_last_total(pool: Pool, ledger_url: str) -> None:
    async with trading(pool, ledger_url) as harness:
        intent = await harness.harness.accept(a_limit_create("1.00"))
        for quantity in ("11", "1500"):
            await harness.harness.accept(a_replace(intent, "1.10", quantity))
        await harness.work()
        assert await agree(harness, intent) == ("WORKING", None)
        await harness.harness.accept(a_replace(intent, str(PRICE), "2000"))
        await harness.work()
        assert await agree(harness, intent) == ("CLOSED", "FILLED")
        assert (await harness.harness.order(intent))["filled_quantity"] == 2000
        assert {state for _, state, _ in await harness.harness.states()} == {"ACKED"}


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
    async with trading(pool, ledger_url, f"{fault}=1") as harness:
        intent = await harness.harness.accept(a_limit_create("1.00"))
        await harness.work()
        await harness.harness.accept(a_replace(intent, price, "12"))
        await harness.work()
        await harness.settle()
        assert (await harness.harness.states())[1][:2] == ("REPLACE", FAULTS[fault])
        filled = FAULTS[fault] == "ACKED" and price != "1.10"
        assert await agree(harness, intent) == (("CLOSED", "FILLED") if filled else ("WORKING", None))
        if not filled:
            await harness.harness.accept(a_cancel(intent))
            await harness.work()
            assert await agree(harness, intent) == ("CLOSED", "CANCELED")
        requests = "select count(*) from requests where kind = 'REPLACE'"
        ledger = await asyncpg.connect(ledger_url, timeout=60)
        try:
            assert await ledger.fetchval(requests) == (0 if fault == "replace_hang" else 1)
        finally:
            await ledger.close()
