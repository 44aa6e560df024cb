"""What every test may use: one PostgreSQL and one NATS for each test worker."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

from openbell_server.processes.local_services import LocalServices

# How long an example takes says how busy the machine is, and nothing else. The gate tries what was tried before it.
SLOW = hypothesis.HealthCheck.too_slow
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[SLOW], derandomize="CI" in os.environ
)
hypothesis.settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def services() -> Iterator[LocalServices]:
    # Tests end processes, never the machine: nothing is lost that no disk was waited for.
    with LocalServices({"fsync": "off"}) as running:
        yield running
