"""The gRPC process."""

import asyncio

from openbell_server.processes.lifecycle import notify_ready
from openbell_server.settings import Settings


async def serve(settings: Settings, stopping: asyncio.Event) -> None:
    """Serve the stream until stopping is set."""
    notify_ready()
    await stopping.wait()
