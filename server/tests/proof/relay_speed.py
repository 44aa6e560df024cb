"""How fast the relay tells durably of what was recorded, beside a bare claim and completion of as many rows."""

from time import monotonic

import uvloop

from openbell_server.adapters.jetstream import subjects
from openbell_server.adapters.jetstream.connection import JetStreamConnection
from openbell_server.adapters.jetstream.publishing import JetStreamPublisher, work_messages
from openbell_server.adapters.postgres.connection import RELAY_POOL_SETTINGS, Role, open_role_pool
from openbell_server.adapters.postgres.events.outbox import PostgresOutboxStore
from openbell_server.application.events.relay_outbox import RelayOutbox
from openbell_server.domain.events.outbox import Queue
from openbell_server.processes.relay import LANES, ROUNDS_MAX
from proof.speed_bench import SpeedBench
from support.brokers.paper_broker import until

ROWS = 8_192
CONNECT_SECONDS = 60


def relay_rate(bench: SpeedBench) -> float:
    """Rows a second that were claimed, told of and completed by one relay."""
    return uvloop.run(_relay_rate(bench))


async def _relay_rate(bench: SpeedBench) -> float:
    connection = JetStreamConnection(bench.services.nats.url)
    connection.start()
    try:
        async with await open_role_pool(bench.url, Role.RELAY, LANES, RELAY_POOL_SETTINGS) as lanes:
            teller = JetStreamPublisher(connection, subjects.WORK_STREAM, work_messages)
            relay = RelayOutbox(PostgresOutboxStore(lanes, Queue.INTENTS), teller, lambda: 1.0, monotonic)
            await until(teller.is_ready, CONNECT_SECONDS)
            await relay()
            done, begun = 0, monotonic()
            while done < ROWS:
                told = await relay.together(ROUNDS_MAX)
                assert told.completed == told.claimed > 0, "too few rows to relay, or some were not told of"
                done += told.completed
            return done / (monotonic() - begun)
    finally:
        await connection.close()
