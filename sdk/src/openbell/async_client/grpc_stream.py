"""The event stream over gRPC."""

from asyncio import sleep
from collections.abc import AsyncGenerator
from contextlib import aclosing

import grpc

from openbell.connection import Connection
from openbell.events import subscriptions
from openbell.events.grpc_messages import async_channel, async_messages, frame_of, refusal_of, subscribe_message
from openbell.events.records import Event
from openbell.events.subscriptions import Subscription
from openbell.wire.trading_pb2_grpc import TradingServiceStub


async def iterate(connection: Connection, subscription: Subscription) -> AsyncGenerator[Event | None]:
    """Events, and None for each frame that only reports the position of the stream. Reconnects by itself."""
    while not subscription.is_closed:  # also ends when pause_after raises: refused, or too many failures in a row
        refusal, details = None, None
        try:
            async with async_channel(connection) as opened:
                call = TradingServiceStub(opened).SubscribeEvents(
                    subscribe_message(subscription), metadata=(connection.credential,)
                )
                subscription.begin(call.cancel)
                async with aclosing(async_messages(call)) as received:
                    async for message in received:
                        for event in subscription.accept(frame_of(message)) or (None,):
                            yield event
        except grpc.RpcError as error:
            refusal, details = refusal_of(error), error.details()
        except TimeoutError:
            details = f"nothing came for {subscriptions.SILENCE_SECONDS:g} seconds"
        if not subscription.is_closed:
            await sleep(subscription.pause_after(refusal, details))
