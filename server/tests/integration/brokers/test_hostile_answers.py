"""Whatever a broker answers: a session ends in doubt, soon, having read little, and is of use afterwards."""

import pytest

from conformance.exactness import exact
from conformance.hostile import hostile
from openbell_server.brokers.registry import BROKERS


@pytest.mark.parametrize("broker", BROKERS)
async def test_a_hostile_answer_proves_nothing_and_harms_nothing(broker: str) -> None:
    tried = await hostile(broker, 50)
    assert tried.payloads >= 40
    assert (tried.crashes, tried.hangs, tried.unbounded) == ([], [], [])
    assert (tried.wrong, tried.unusable) == ([], [])


@pytest.mark.parametrize("broker", BROKERS)
async def test_no_number_is_changed_on_the_wire_to_18_places(broker: str) -> None:
    exchanged = await exact(broker, 50)
    assert exchanged.numbers >= 250
    assert exchanged.changed == 0
