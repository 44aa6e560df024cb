"""Whatever a broker answers: a session ends in doubt, soon, having read little, and is of use afterwards."""

import pytest

from conformance.exactness import exact
from conformance.hostile import hostile
from openbell_server.brokers.paper.profiles import PROFILES
from openbell_server.brokers.registry import BROKERS

# Of the paper broker one with our ids and one without; of the others every one that there is.
PAPERS = ["paper", "paper-c"]


@pytest.mark.parametrize("broker", [*PAPERS, *sorted(set(BROKERS) - set(PROFILES))])
async def test_a_hostile_answer_proves_nothing_and_harms_nothing(broker: str) -> None:
    tried = await hostile(broker, "gate")
    assert tried.payloads >= 200
    assert (tried.crashes, tried.hangs, tried.unbounded) == ([], [], [])
    assert (tried.wrong, tried.unusable) == ([], [])


@pytest.mark.parametrize("broker", [*PAPERS, "alpaca"])
async def test_no_number_is_changed_on_the_wire_to_18_places(broker: str) -> None:
    exchanged = await exact(broker, "gate")
    assert exchanged.numbers >= 500
    assert exchanged.changed == 0
