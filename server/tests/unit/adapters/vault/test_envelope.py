"""A vault that is slow holds up nobody who does not need it."""

import asyncio
import threading

from openbell_server.adapters.vault.envelope import EnvelopeOpener, Wrapped
from openbell_server.application.access.ports.vault import VaultUnreachable
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace
from openbell_server.domain.identifiers import AccountId, OrganizationId
from support.builders.tenant import new_id


class SlowKey:
    """Implements KeyEncryptionKey: it does not answer before it is let go, and then that it cannot."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def current_id(self) -> str:
        return "slow"

    def wrap(self, own_key: bytes, place: bytes) -> Wrapped:
        raise NotImplementedError

    def unwrap(self, wrapped: Wrapped, place: bytes) -> bytes:
        self.let_go.wait(10)
        raise VaultUnreachable("it did not answer")


async def test_a_key_that_does_not_answer_leaves_the_threads_of_others_alone() -> None:
    key = SlowKey()
    place = SecretPlace(OrganizationId(new_id()), AccountId(new_id()), new_id(), 1)
    opening = [
        asyncio.ensure_future(EnvelopeOpener(key).open(place, SealedSecrets("slow", b"", b""))) for _ in range(64)
    ]
    await asyncio.sleep(0)
    try:
        # As the look-up of a host's name does.
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(lambda: "found") == "found"
    finally:
        key.let_go.set()
        answers = await asyncio.gather(*opening, return_exceptions=True)
    assert {type(answer) for answer in answers} == {VaultUnreachable}
