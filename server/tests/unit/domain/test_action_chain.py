"""The chain over an account's actions: one step per set, and no way to tell another story that ends at its head."""

import hashlib

import pytest

from openbell_server.domain.hash_chains import CHAIN_START
from openbell_server.domain.orders.action_chain import ActionChain

# number, the first number of its set, the action's hash, its receipt's hash
Link = tuple[int, int, bytes, bytes]


def link(number: int, chained_from: int) -> Link:
    return number, chained_from, hashlib.sha256(b"a%d" % number).digest(), hashlib.sha256(b"r%d" % number).digest()


LINKS = [link(1, 1), link(2, 1), link(3, 3), link(4, 4), link(5, 4)]


def head_of(links: list[Link]) -> bytes | None:
    chain = ActionChain()
    for each in links:
        chain.add(*each)
    return chain.head()


def test_a_chain_without_actions_stands_at_its_start() -> None:
    assert head_of([]) == CHAIN_START


def test_a_chain_takes_one_step_per_set() -> None:
    head = CHAIN_START
    for together in (LINKS[:2], LINKS[2:3], LINKS[3:]):
        hashes = b"".join(action_hash + receipt_hash for _, _, action_hash, receipt_hash in together)
        head = hashlib.sha256(head + hashes).digest()
    assert head_of(LINKS) == head


def test_a_chain_that_begins_in_the_middle_of_a_set_stands_nowhere() -> None:
    assert head_of([link(1, 0)]) is None


OTHER = bytes(32)


@pytest.mark.parametrize(
    "links",
    [
        pytest.param(LINKS[:-1], id="the last is missing"),
        pytest.param(LINKS[1:], id="the first is missing"),
        pytest.param([LINKS[1], LINKS[0], *LINKS[2:]], id="two are exchanged"),
        pytest.param([*LINKS[:2], (3, 3, OTHER, LINKS[2][3]), *LINKS[3:]], id="an action is another"),
        pytest.param([*LINKS[:2], (3, 3, LINKS[2][2], OTHER), *LINKS[3:]], id="a receipt is another"),
        pytest.param([*LINKS[:2], (3, 3, LINKS[2][2], b""), *LINKS[3:]], id="a receipt is missing"),
        pytest.param([*LINKS[:3], link(4, 3), link(5, 3)], id="two sets became one"),
        pytest.param([*LINKS[:4], link(5, 5)], id="one set became two"),
        pytest.param([link(1, 0), link(2, 0), *LINKS[2:]], id="a set begins before its first action"),
        pytest.param([*LINKS[:3], link(4, 2), link(5, 2)], id="a set begins inside another"),
        pytest.param([*LINKS[:4], link(5, 3)], id="an action says that it is of an earlier set"),
    ],
)
def test_any_other_history_ends_elsewhere(links: list[Link]) -> None:
    assert head_of(links) != head_of(LINKS)
