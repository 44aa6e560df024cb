"""Opens a stream of events, and removes the frames that only report its position."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing

from openbell.events.records import Event


def opened(stream: Iterator[Event | None]) -> Iterator[Event]:
    """Connect before this returns: the first frame of a stream confirms the subscription."""
    next(stream)
    return (event for event in stream if event is not None)


async def async_opened(stream: AsyncGenerator[Event | None]) -> AsyncIterator[Event]:
    """Connect at the first iteration."""
    async with aclosing(stream):
        async for event in stream:
            if event is not None:
                yield event
