"""The whole path to a real broker, in processes: a credential, an order that fills, one that is cancelled."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import asyncpg
import httpx
import pytest

from loopbacks import Loopback, loopback
from openbell import Client, Limit, Market
from openbell_server.brokers.paper.profiles import PROFILES
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId

REAL = sorted(set(BROKERS) - set(PROFILES))
NOT_ANSWERED = {"UNVERIFIED", "verification_unanswered"}


@contextmanager
def running(broker: str, platform: LocalPlatform) -> Iterator[Loopback]:
    """The broker on this machine, in a loop of its own: processes are started from the main thread."""
    name = f"{broker}_books"
    loop, started, stopping = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    served: list[Loopback] = []

    async def serve() -> None:
        connection = await asyncpg.connect(platform.services.postgres.url("postgres"))
        await connection.execute(f"create database {name}")
        await connection.close()
        async with loopback(broker, platform.services.postgres.url(name)) as made:
            served.append(made)
            started.set()
            await stopping.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert started.wait(120)
        yield served[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(120)
        loop.close()


def sign_in(http: httpx.Client, account_id: AccountId, broker: Loopback) -> str:
    """How the account stands once the broker was asked."""
    secrets = broker.secrets(account_id)
    assert secrets is not None
    url = f"/v1/accounts/{account_id}/credentials"
    http.put(url, json={"fields": dict(secrets)}).raise_for_status()
    told = ["UNVERIFIED"]

    def is_answered() -> bool:
        answer = http.post(f"{url}/verify").json()
        told.append(answer.get("code") or answer["status"])
        return told[-1] not in NOT_ANSWERED

    assert wait_until(is_answered, 180)
    return told[-1]


@pytest.mark.parametrize("broker", REAL)
def test_an_account_with_a_credential_trades_there(broker: str, tmp_path: Path) -> None:
    with LocalPlatform(tmp_path, brokers=[broker]) as platform, running(broker, platform) as made:
        addresses = json.dumps({broker: {Environment.PAPER: made.addresses[Environment.PAPER]}})
        platform.stack.stop("executor")
        platform.stack.start("executor", {"OPENBELL_BROKER_ADDRESSES": addresses})
        environment, (account_id,) = platform.client_environment(), platform.seeded.account_ids
        key, url = environment["OPENBELL_API_KEY"], environment["OPENBELL_URL"]
        with (
            httpx.Client(base_url=url, headers={"x-api-key": key}, timeout=60, trust_env=False) as http,
            Client(api_key=key, url=url, account_id=str(account_id)) as client,
        ):
            assert sign_in(http, account_id, made) == "VALID"
            filled = client.wait(client.buy("AAPL", Market(3)).intent_id).execution
            assert filled is not None
            assert (filled.status, filled.filled_quantity) == ("FILLED", Decimal(3))
            resting = client.buy("AAPL", Limit(2, price="0.01")).intent_id

            def is_now(state: str) -> bool:
                execution = client.intent(resting).execution
                return execution is not None and execution.status == state

            assert wait_until(lambda: is_now("NEW"), 180)
            client.cancel_intent(resting)
            assert wait_until(lambda: is_now("CANCELED"), 180)
        platform.stack.stop("executor")
        assert len(made.writes) == 3
