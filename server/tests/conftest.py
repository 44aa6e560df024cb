"""What every test may use: one PostgreSQL and one NATS for each test worker."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from openbell_server.devtools.local_nats import LocalNats
from openbell_server.devtools.local_postgres import LocalPostgres
from openbell_server.devtools.local_services import LocalServices
from support.environment.cheap_defaults import use_cheap_defaults

# How long an example takes says how busy the machine is, and nothing else. The gate tries what was tried before it.
SLOW = hypothesis.HealthCheck.too_slow
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[SLOW], derandomize="CI" in os.environ
)
hypothesis.settings.load_profile("unhurried")
use_cheap_defaults()
# Tests end processes, never the machine, and every test has a new database: nothing needs to survive a power failure,
# nothing is replicated, and no table lives long enough to be vacuumed. Half of a test's time goes into its database.
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "shared_buffers": "32MB",
}


@pytest.fixture(scope="session")
def services() -> Iterator[LocalServices]:
    # The sabotage proof runs many pytest processes, one after the other, on servers that it started once.
    if started := os.environ.get("OPENBELL_TEST_SERVICES"):
        folder, postgres_port, nats_port = started.split(" ")
        reused = LocalServices()
        reused.postgres = LocalPostgres(Path(folder), int(postgres_port))
        reused.nats = LocalNats(Path(folder), int(nats_port))
        yield reused
        return
    with LocalServices(FAST) as running:
        yield running
