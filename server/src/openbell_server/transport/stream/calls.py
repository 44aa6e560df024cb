"""Which methods are served, and to whom, by their names."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc

# Anybody may ask these.
OPEN: Final = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"})
# These look at the caller, and at what it may follow, themselves.
LOOKING: Final = frozenset({"/trading.TradingService/SubscribeEvents", "/trading.TradingService/StreamEvents"})
# For any caller with a right credential. What no row has is served to nobody.
REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class Gate(grpc.aio.ServerInterceptor):
    """A method that is added needs a row before anybody reaches it."""

    def __init__(self, admit: Callable[[Context], Awaitable[None]]) -> None:
        """Whoever is not admitted does not even hear which methods there are."""
        self._admit = admit

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """The method's handler, or one that refuses."""
        method = handler_call_details.method
        if method in OPEN or method in LOOKING:
            return await continuation(handler_call_details)
        if method == REFLECTION and (handler := await continuation(handler_call_details)) is not None:
            return grpc.stream_stream_rpc_method_handler(
                self._admitted(handler), handler.request_deserializer, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(self._unimplemented)

    def _admitted(self, handler: "grpc.RpcMethodHandler[Any, Any]") -> Callable[..., AsyncIterator[Any]]:
        answer: Any = handler.stream_stream

        async def admitted(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            await self._admit(context)
            async for reply in answer(requests, context):
                yield reply

        return admitted

    async def _unimplemented(self, _: object, context: Context) -> None:
        await self._admit(context)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")
