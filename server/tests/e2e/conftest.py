"""A whole platform of processes, from nothing, for the tests of one file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from openbell import Client
from openbell_server.devtools.local_platform import LocalPlatform
from support.environment.forked_processes import fork_platform_processes

fork_platform_processes()


@pytest.fixture(scope="module")
def faults() -> str:
    """How the paper broker misbehaves; a file of tests overrides it."""
    return ""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, faults: str) -> Iterator[LocalPlatform]:
    logs: Path = tmp_path_factory.mktemp("logs")
    with LocalPlatform(logs, {"OPENBELL_PAPER_FAULTS": faults}, accounts=2) as running:
        yield running


@pytest.fixture
def account_id(platform: LocalPlatform) -> str:
    """Whose orders a test gives; a file of tests overrides it."""
    return str(platform.seeded.account_ids[0])


@pytest.fixture
def client(platform: LocalPlatform, account_id: str) -> Iterator[Client]:
    environment = platform.client_environment()
    with Client(
        api_key=environment["OPENBELL_API_KEY"],
        url=environment["OPENBELL_URL"],
        stream_address=environment["OPENBELL_STREAM"],
        account_id=account_id,
        timeout=60,
    ) as opened:
        yield opened
