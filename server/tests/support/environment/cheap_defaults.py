"""Defaults of libraries and of PostgreSQL that cost more than what is tested with them."""

from functools import cache

import httpx
import structlog
from httpx._transports import default

# Tests end processes, never the machine, and every test has a new database: nothing needs to survive a power failure,
# nothing is replicated, and no table lives long enough to be vacuumed. Half of a test's time goes into its database.
FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "shared_buffers": "32MB",
}


def use_cheap_defaults() -> None:
    """For this process: one set of certificate authorities for all HTTP clients, and plain tracebacks in the log.

    To read the authorities takes 25 ms of CPU for each client. The development log of structlog prints an error with
    every local variable of every frame, which takes seconds.
    """
    default.create_ssl_context = cache(httpx.create_ssl_context)  # type: ignore[attr-defined]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
