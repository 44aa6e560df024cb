"""Whatever a broker answers: a session ends in doubt, soon, having read little, and is of use afterwards."""

import pytest

from conformance.hostile import hostile


@pytest.mark.parametrize("broker", ["paper", "paper-c"])
async def test_a_hostile_answer_proves_nothing_and_harms_nothing(broker: str) -> None:
    tried = await hostile(broker, "gate")
    assert tried.payloads >= 200
    assert (tried.crashes, tried.hangs, tried.unbounded) == ([], [], [])
    assert (tried.wrong, tried.unusable) == ([], [])
