# Generated from openbell/async_client/sse.py by make generate. Do not edit.
"""The event stream as server-sent events, for networks that block gRPC."""

from collections.abc import Generator
from time import sleep

import httpx

from openbell.connection import Connection
from openbell.events.records import Event
from openbell.events.sse_frames import FrameParser, canceller, refusal_of, stream_arguments
from openbell.events.subscriptions import Subscription


def iterate(http: httpx.Client, connection: Connection, subscription: Subscription) -> Generator[Event | None]:
    """Events, and None for each frame that only reports the position of the stream. Reconnects by itself."""
    while not subscription.is_closed:  # also ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            with http.stream(**stream_arguments(connection, subscription)) as response:
                if response.status_code == httpx.codes.OK:
                    subscription.begin(canceller(response))
                    parser = FrameParser()
                    for line in response.iter_lines():
                        if (frame := parser.feed(line)) is not None:
                            yield from subscription.accept(frame) or (None,)
                else:
                    response.read()
                    refusal, details = refusal_of(response), f"it answers {response.status_code}"
        except (httpx.HTTPError, httpx.StreamError) as error:
            details = str(error) or type(error).__name__
        if not subscription.is_closed:
            sleep(subscription.pause_after(refusal, details))
