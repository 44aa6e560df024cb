"""Webhooks as operators see them: the doctor, the metrics, and whether a relay delivers at all."""

import asyncio
import json
from typing import Any, cast

import pytest

from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.event_wakes import EventWakes
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.operators.diagnostics import Diagnostics
from openbell_server.processes.doctor.findings import Level, look_over
from openbell_server.processes.doctor.findings import Target as DoctorTarget
from openbell_server.processes.doctor.work_checks import CHECKS
from openbell_server.processes.operations_port import Operations
from openbell_server.processes.webhooks import deliver_webhooks
from openbell_server.settings import Settings
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant, accept
from support.builders.webhook_targets import Target, a_target, a_webhook
from support.rest.operations_port import metrics_of
from support.tenancy.statements import Owner

FAILING = b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"
OUTCOMES = ("delivered", "failed")
NOBODY = "https://a.invalid/"
# Nobody tells of events here: what is sent, the sweep has found.
WAKES = EventWakes(JetStreamConnection("nats://127.0.0.1:1"))


@pytest.fixture
async def tenant(pool: Pool) -> Tenant:
    return await a_tenant(pool)


async def park(owner: Owner) -> None:
    await owner.execute(
        "insert into webhook_lanes (organization_id, webhook_id, account_id, position, next_attempt_at, updated_at,"
        " parked_at, failing_since) select w.organization_id, w.webhook_id, a.account_id, 0, now(), now(), now(), now()"
        " from webhooks w join accounts a on a.organization_id = w.organization_id"
    )


async def test_the_doctor_warns_of_lanes_that_are_parked(
    login_pool: Pool, owner: Owner, pool: Pool, tenant: Tenant
) -> None:
    (check,) = [check for check in CHECKS if check.name == "webhooks"]
    patient = DoctorTarget(Settings(), "relay", cast("Any", None), Diagnostics(login_pool))
    await a_webhook(pool, tenant, NOBODY)
    (finding,) = await look_over(patient, [check])
    assert finding.level is Level.OK
    await park(owner)
    (finding,) = await look_over(patient, [check])
    assert finding.level is Level.WARNING
    assert finding.what.startswith("Events of 1 account(s) are no longer sent")
    assert "openbell webhooks resume" in finding.fix


class Relay:
    """The part of a relay that delivers, as its process starts it."""

    def __init__(self, database: str, **settings: Any) -> None:
        self.operations, self.stopping = Operations("relay"), asyncio.Event()
        known = {"webhook_key": "k" * 32, "webhook_private_targets": ["*"], **settings}
        self.task = asyncio.ensure_future(
            deliver_webhooks(Settings(database_url=database, **known), WAKES, self.operations, self.stopping)
        )

    async def stop(self) -> None:
        self.stopping.set()
        await asyncio.wait_for(self.task, 60)


def at(target: Target) -> str:
    return f"http://127.0.0.1:{target.port}/"


async def test_a_relay_delivers_without_a_hint_and_counts_what_became_of_it(
    database: str, pool: Pool, tenant: Tenant
) -> None:
    async with a_target() as takes, a_target(FAILING) as fails:
        for target in (takes, fails):
            await a_webhook(pool, tenant, at(target))
        relay = Relay(database)
        await accept(pool, tenant.submission())

        async def is_settled() -> bool:
            shown = await metrics_of(relay.operations)
            counted = [shown.get(f'openbell_webhook_deliveries_total{{outcome="{name}"}}', 0) for name in OUTCOMES]
            return all(counted) and shown["openbell_webhook_lanes_behind"] == 1

        await until(is_settled, 60)
        shown = await metrics_of(relay.operations)
        await relay.stop()
    (taken, *_) = takes.requests
    assert json.loads(taken.body)["account_seq"] == 1
    assert shown['openbell_webhook_deliveries_total{outcome="delivered"}'] == 1
    assert shown["openbell_webhook_lanes_parked"] == 0


async def test_without_a_key_a_relay_delivers_nothing_and_goes_on_with_the_rest(database: str, pool: Pool) -> None:
    relay = Relay(database, webhook_key="")
    await asyncio.wait_for(relay.task, 60)
    assert not [name for name in await metrics_of(relay.operations) if "webhook" in name]
