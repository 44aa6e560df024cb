"""The event stream as server-sent events, for networks that block gRPC."""

from asyncio import sleep
from collections.abc import AsyncGenerator

import httpx

from openbell.connection import Connection
from openbell.events.records import Event
from openbell.events.sse_frames import FrameParser, async_canceller, refusal_of, stream_arguments
from openbell.events.subscriptions import Subscription


async def iterate(
    http: httpx.AsyncClient, connection: Connection, subscription: Subscription
) -> AsyncGenerator[Event | None]:
    """Events, and None for each frame that only reports the position of the stream. Reconnects by itself."""
    while not subscription.is_closed:  # also ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            async with http.stream(**stream_arguments(connection, subscription)) as response:
                if response.status_code == httpx.codes.OK:
                    subscription.begin(async_canceller(response))
                    parser = FrameParser()
                    async for line in response.aiter_lines():
                        if (frame := parser.feed(line)) is not None:
                            for event in subscription.accept(frame) or (None,):
                                yield event
                else:
                    await response.aread()
                    refusal, details = refusal_of(response), f"it answers {response.status_code}"
        except (httpx.HTTPError, httpx.StreamError) as error:
            details = str(error) or type(error).__name__
        if not subscription.is_closed:
            await sleep(subscription.pause_after(refusal, details))
