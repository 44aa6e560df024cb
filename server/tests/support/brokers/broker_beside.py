"""The simulator of a real broker beside a local platform, and a credential for it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
import httpx

from loopbacks import Loopback, loopback
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId

_NOT_ANSWERED = {"UNVERIFIED", "verification_unanswered"}


@contextmanager
def broker_beside(platform: LocalPlatform, broker: str) -> Iterator[Loopback]:
    """In a loop of its own: processes are started from the main thread. The executor knows its address."""
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
        addresses = json.dumps({broker: {Environment.PAPER: served[0].addresses[Environment.PAPER]}})
        platform.stack.stop("executor")
        platform.stack.start("executor", {"OPENBELL_BROKER_ADDRESSES": addresses})
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
        return told[-1] not in _NOT_ANSWERED

    assert wait_until(is_answered, 180)
    return told[-1]
