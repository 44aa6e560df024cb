"""Readiness by systemd's notify protocol: a process reports its own, a supervisor receives that of its children."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

READY: Final = b"READY=1"


def notify_ready() -> None:
    """Report readiness at the address in NOTIFY_SOCKET; does nothing without one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notice:
        notice.connect(_path(address))
        notice.sendall(READY)


def is_ready(notice: bytes) -> bool:
    return READY in notice.split(b"\n")


@contextmanager
def receive_readiness(name: str, ready: Callable[[], None]) -> Iterator[str]:
    """The address for a child's notices, without a file; `ready` is called on the event loop."""
    address = f"@openbell-{os.getpid()}-{name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.setblocking(False)
        notices.bind(_path(address))

        def read() -> None:
            if is_ready(notices.recv(4096)):
                ready()

        loop = asyncio.get_running_loop()
        loop.add_reader(notices, read)
        try:
            yield address
        finally:
            loop.remove_reader(notices)


def _path(address: str) -> str:
    """Systemd writes an address without a file with an @ instead of the zero byte."""
    return "\0" + address[1:] if address.startswith("@") else address
