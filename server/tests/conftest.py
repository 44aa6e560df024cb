"""What every test may use: one PostgreSQL and one NATS for each test worker."""

from collections.abc import Iterator

import pytest

from openbell_server.processes.local_services import LocalServices


@pytest.fixture(scope="session")
def services() -> Iterator[LocalServices]:
    # Tests end processes, never the machine: nothing is lost that no disk was waited for.
    with LocalServices({"fsync": "off"}) as running:
        yield running
