"""Keys that are asked for at the same time."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from openbell_server.application.access.batched_key_lookup import BatchedKeyLookup
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.api_keys import ApiKey
from openbell_server.domain.identifiers import OrganizationId


def a_key(key_id: str) -> ApiKey:
    return ApiKey(
        id=str(uuid4()),
        key_id=key_id,
        organization_id=OrganizationId(uuid4()),
        environment=Environment.PAPER,
        permissions=frozenset(),
        own_orders_only=False,
        account_ids=None,
        secret_hash=b"",
        disabled=False,
        revoked_at=None,
        expires_at=None,
        created_at=datetime(2026, 1, 5, tzinfo=UTC),
    )


KEYS = {key_id: a_key(key_id) for key_id in ("a", "b")}


class Reads:
    """What was asked for, each time; it fails on request."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.fails = False

    async def __call__(self, key_ids: Sequence[str]) -> Mapping[str, ApiKey]:
        self.asked.append(key_ids)
        await asyncio.sleep(0)
        if self.fails:
            raise OSError
        return {key_id: KEYS[key_id] for key_id in key_ids if key_id in KEYS}


async def test_those_who_ask_together_are_answered_by_one_read() -> None:
    reads = Reads()
    keys = BatchedKeyLookup(reads)
    found = await asyncio.gather(*(keys.find_key_across_organizations(key_id) for key_id in ("b", "a", "x", "b")))
    assert found == [KEYS["b"], KEYS["a"], None, KEYS["b"]]
    assert reads.asked == [["a", "b", "x"]]


async def test_who_asks_while_it_is_read_is_read_anew() -> None:
    reads = Reads()
    keys = BatchedKeyLookup(reads)
    first = asyncio.ensure_future(keys.find_key_across_organizations("a"))
    while not reads.asked:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert await keys.find_key_across_organizations("a") == await first == KEYS["a"]
    assert reads.asked == [["a"], ["a"]]


async def test_one_who_leaves_takes_the_answer_from_nobody() -> None:
    keys = BatchedKeyLookup(Reads())
    leaving = asyncio.ensure_future(keys.find_key_across_organizations("a"))
    staying = asyncio.ensure_future(keys.find_key_across_organizations("b"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == KEYS["b"]


async def test_a_read_that_fails_fails_for_all_and_the_next_is_made() -> None:
    reads = Reads()
    reads.fails = True
    keys = BatchedKeyLookup(reads)
    asked = [keys.find_key_across_organizations(key_id) for key_id in ("a", "b")]
    assert [type(error) for error in await asyncio.gather(*asked, return_exceptions=True)] == [OSError, OSError]
    with pytest.raises(OSError):
        await keys.find_key_across_organizations("a")
    reads.fails = False
    assert await keys.find_key_across_organizations("a") == KEYS["a"]
