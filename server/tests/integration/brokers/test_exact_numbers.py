"""Numbers cross the wire to a broker and back as they were meant."""

import pytest

from conformance.exactness import exact
from openbell_server.brokers.registry import BROKERS


@pytest.mark.parametrize("broker", BROKERS)
async def test_no_number_is_changed_on_the_wire_to_18_places(broker: str) -> None:
    exchanged = await exact(broker, 50)
    assert exchanged.numbers >= 250
    assert exchanged.changed == 0
