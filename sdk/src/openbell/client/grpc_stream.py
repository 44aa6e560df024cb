# Generated from openbell/async_client/grpc_stream.py by make generate. Do not edit.
"""The event stream over gRPC."""

from collections.abc import Generator
from contextlib import closing
from time import sleep

import grpc

from openbell.connection import Connection
from openbell.events import subscriptions
from openbell.events.grpc_messages import channel, frame_of, messages, refusal_of, subscribe_message
from openbell.events.records import Event
from openbell.events.subscriptions import Subscription
from openbell.wire.trading_pb2_grpc import TradingServiceStub


def iterate(connection: Connection, subscription: Subscription) -> Generator[Event | None]:
    """Events, and None for each frame that only reports the position of the stream. Reconnects by itself."""
    while not subscription.is_closed:  # also ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            with channel(connection) as opened:
                call = TradingServiceStub(opened).SubscribeEvents(
                    subscribe_message(subscription), metadata=(connection.credential,)
                )
                subscription.begin(call.cancel)
                with closing(messages(call)) as received:
                    for message in received:
                        yield from subscription.accept(frame_of(message)) or (None,)
        except grpc.RpcError as error:
            refusal, details = refusal_of(error), error.details()
        except TimeoutError:
            details = f"nothing came for {subscriptions.SILENCE_SECONDS:g} seconds"
        if not subscription.is_closed:
            sleep(subscription.pause_after(refusal, details))
