"""Requests whose target is sent as it is written: clients would tidy it up."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit


async def raw_status(url: str, target: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """The status and the rest of the answer to a GET."""
    parts = urlsplit(url)
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        lines = [f"GET {target} HTTP/1.1", f"host: {parts.netloc}", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        answer = await reader.read()
        writer.close()
    return int(answer.split(b" ", 2)[1]), answer
