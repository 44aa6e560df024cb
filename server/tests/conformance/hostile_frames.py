"""The frames of a WebSocket, by hand, so that wrong ones can be made."""

import asyncio
import base64
import hashlib

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SHORT, _MEDIUM = 126, 1 << 16


def frame(opcode: int, data: bytes, first: int | None = None) -> bytes:
    """A whole message in one frame, or one that begins with another byte."""
    head = bytes([0x80 | opcode if first is None else first])
    if len(data) < _SHORT:
        return head + bytes([len(data)]) + data
    if len(data) < _MEDIUM:
        return head + b"\x7e" + len(data).to_bytes(2) + data
    return head + b"\x7f" + len(data).to_bytes(8) + data


def welcome(key: str) -> bytes:
    """The answer to a client that asks for a WebSocket."""
    accept = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()
    head = "HTTP/1.1 101 X\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    return f"{head}sec-websocket-accept: {accept}\r\n\r\n".encode()


async def take_message(reader: asyncio.StreamReader) -> None:
    """One message of the client's, whatever it says."""
    opcode = 0
    while opcode not in {1, 2}:
        first, second = await reader.readexactly(2)
        opcode, length = first & 0x0F, second & 0x7F
        if length >= _SHORT:
            length = int.from_bytes(await reader.readexactly(2 if length == _SHORT else 8))
        await reader.readexactly(4 + length)
