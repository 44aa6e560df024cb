"""Cancel every order of a trial, also of one that was killed."""

import asyncio
from datetime import timedelta
from typing import Final

from openbell_server.application.broker_trials.subject import CLOCK_SECONDS, ENDED, Subject, TrialStopped
from openbell_server.application.ports.broker import LOOK_UP_ERRORS
from openbell_server.domain.orders.broker_reports import OrderReport

CLEAN_UP_SECONDS: Final = 180
_LOOK_SECONDS: Final = 1.0
# How many looks in a row must find nothing open.
_LOOKS: Final = 2


async def clean_up(subject: Subject, *, may_arrive: bool = True) -> None:
    """Ends once the broker shows none of the orders as open and, if one may still arrive, none can any more."""
    sent, deadline, clean = subject.sent.all(), subject.monotonic() + CLEAN_UP_SECONDS, 0
    if not sent:
        return
    since = min(sent.values()) - timedelta(seconds=CLOCK_SECONDS)
    wait = subject.definition.capabilities.settle_seconds if may_arrive else 0.0
    arrived_at = max(sent.values()) + timedelta(seconds=wait)
    while clean < _LOOKS:
        try:
            async with asyncio.timeout(CLEAN_UP_SECONDS):
                listed = await subject.session.orders_since(subject.account_id, since)
            left: list[OrderReport] | None = [
                each for each in listed if each.status not in ENDED and subject.is_ours(each)
            ]
        except LOOK_UP_ERRORS:
            left = None
        if subject.monotonic() > deadline:
            names = ", ".join(each.broker_order_id for each in left or []) or "the list of orders cannot be read"
            raise TrialStopped(f"Orders may still be open at the broker, cancel them there: {names}.")
        for each in left or []:
            # What became of it the next look shows.
            await subject.cancel_reported(each)
        clean = clean + 1 if left == [] and subject.now() > arrived_at else 0
        await asyncio.sleep(_LOOK_SECONDS)
    subject.sent.clear()
