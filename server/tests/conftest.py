"""What every test may use: one PostgreSQL and one NATS for each test worker."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from openbell_server.devtools.local_nats import LocalNats
from openbell_server.devtools.local_postgres import LocalPostgres
from openbell_server.devtools.local_services import LocalServices
from support.environment.cheap_defaults import FAST, use_cheap_defaults

# How long an example takes says how busy the machine is, and nothing else. The gate tries what was tried before it.
SLOW = hypothesis.HealthCheck.too_slow
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[SLOW], derandomize="CI" in os.environ
)
hypothesis.settings.load_profile("unhurried")
use_cheap_defaults()


@pytest.fixture(scope="session")
def services() -> Iterator[LocalServices]:
    # The sabotage proof runs many pytest processes, one after the other, on servers that it started once.
    if started := os.environ.get("OPENBELL_TEST_SERVICES"):
        folder, postgres_port, nats_port, nats_password = started.split(" ")
        reused = LocalServices()
        reused.postgres = LocalPostgres(Path(folder), int(postgres_port))
        reused.nats = LocalNats(Path(folder), int(nats_port))
        reused.nats.password = nats_password
        yield reused
        return
    with LocalServices(FAST) as running:
        yield running
