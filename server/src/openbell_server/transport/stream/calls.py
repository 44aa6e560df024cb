"""Lists the gRPC methods that the server serves, and who may call each."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc

# No credential needed.
OPEN: Final = frozenset({"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"})
# These authenticate and authorize the caller themselves.
LOOKING: Final = frozenset({"/trading.TradingService/SubscribeEvents", "/trading.TradingService/StreamEvents"})
# For any caller with a valid credential. A method in none of these lists is not served.
REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class Gate(grpc.aio.ServerInterceptor):
    """Refuses every method that is in none of the lists, so a new method needs an entry before it can be called."""

    def __init__(self, admit: Callable[[Context], Awaitable[None]]) -> None:
        self._admit = admit

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
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
