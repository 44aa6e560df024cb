"""Refusals of streams are delayed for an organization that gets many."""

from uuid import uuid4

import pytest

from openbell_server.application.events import refusal_delays
from openbell_server.application.events.refusal_delays import DELAY_SECONDS_MAX, RefusalDelays
from openbell_server.domain.identifiers import OrganizationId

ONE, OTHER = OrganizationId(uuid4()), OrganizationId(uuid4())


async def test_further_refusals_of_one_organization_wait_and_those_of_others_do_not() -> None:
    delays = RefusalDelays()
    seconds = [delays.next_seconds(ONE) for _ in range(1000)]
    assert seconds[0] == delays.next_seconds(OTHER) == 0
    assert 0 < seconds[1] < seconds[2] <= 2 / refusal_delays.REFUSALS_PER_SECOND
    assert max(seconds) <= DELAY_SECONDS_MAX
    # Beyond the maximum they are spread, so that a crowd does not come back at once.
    assert min(seconds[500:]) >= DELAY_SECONDS_MAX / 4
    assert len(set(seconds[500:])) > 400


async def test_organizations_that_need_not_wait_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_delays, "ORGANIZATIONS_MAX", 10)
    monkeypatch.setattr(refusal_delays, "REFUSALS_PER_SECOND", 1e9)
    delays = RefusalDelays()
    for _ in range(1000):
        delays.next_seconds(OrganizationId(uuid4()))
    assert len(delays._next_at) <= 11
