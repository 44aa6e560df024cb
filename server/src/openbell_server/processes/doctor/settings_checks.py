"""Checks the settings."""

import ipaddress
import logging
from typing import Final

from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.access_tokens import LOOPBACK
from openbell_server.domain.errors import OperatorError
from openbell_server.processes.brokers.addresses import broker_addresses
from openbell_server.processes.doctor.findings import ALL, CALLED, Check, Result, Target, fine, problem, warning
from openbell_server.settings import is_guessable


async def _cursor_secret(target: Target) -> Result:
    secret = target.settings.cursor_secret.get_secret_value()
    make = "Set OPENBELL_CURSOR_SECRET to the output of `openssl rand -hex 32`, the same on every replica."
    if not secret:
        return problem("There is no secret for cursors and resume tokens, and the process will not start.", make)
    if is_guessable(secret):
        return problem("The secret for cursors and resume tokens can be guessed, and the process will not start.", make)
    return fine("The secret for cursors and resume tokens is long enough.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK


async def _listeners(target: Target) -> Result:
    settings = target.settings
    hosts = {"api": settings.api_host, "stream": settings.stream_host, "console": settings.console_host}
    opened = {part: host for part, host in hosts.items() if part in target.parts and not _is_loopback(host)}
    for part, host in opened.items():
        return warning(
            f"It listens on {host} without TLS: keys and tokens can be read on the network.",
            f"Set OPENBELL_{part.upper()}_HOST to 127.0.0.1 behind a proxy with TLS, or allow only the proxy into this"
            " network.",
        )
    return fine(f"It listens on {hosts[min(target.parts)]}, for a proxy on this machine.")


async def _console(target: Target) -> Result:
    settings = target.settings
    try:
        for name in ("console_issuer", "console_client_id"):
            settings.require(name)
        settings.strong_secret("console_key")
        settings.console_origin()
    except OperatorError as error:
        return problem(str(error), "Correct the setting: the console will not start.")
    return fine(f"The console is at {settings.console_url}, and its key is long enough.")


async def _operations_port(target: Target) -> Result:
    settings = target.settings
    if not settings.operations_port:
        return warning(
            "Metrics and readiness are not available: the operations port is off.",
            "Set OPENBELL_OPERATIONS_PORT, a different one for each process on a machine.",
        )
    if not _is_loopback(settings.operations_host):
        return warning(
            f"The operations port is open at {settings.operations_host} without authentication.",
            "Set OPENBELL_OPERATIONS_HOST to 127.0.0.1, or to an address that only your monitoring reaches.",
        )
    return fine(f"Metrics and readiness are at {settings.operations_host}:{settings.operations_port}.")


async def _logs(target: Target) -> Result:
    level = target.settings.log_level
    if level not in logging.getLevelNamesMapping():
        return problem("The log level is invalid, and the process will not start.", "Set OPENBELL_LOG_LEVEL to INFO.")
    return fine(f"Logs are written from {level} upwards.")


async def _broker_addresses(target: Target) -> Result:
    if not target.settings.broker_addresses:
        return None
    try:
        broker_addresses(target.settings, BROKERS)
    except OperatorError as error:
        return problem(str(error), "Correct or remove OPENBELL_BROKER_ADDRESSES: executors will not start.")
    return warning(
        f"Brokers that are not used at their own addresses: {', '.join(sorted(target.settings.broker_addresses))}.",
        "Remove OPENBELL_BROKER_ADDRESSES unless there is a proxy in front of the broker.",
    )


async def _crash_point(target: Target) -> Result:
    if not target.settings.crash_at:
        return None
    return problem("The process is configured to crash, as only tests do.", "Remove OPENBELL_CRASH_AT.")


CHECKS: Final = (
    Check("settings", "cursor_secret", _cursor_secret, CALLED),
    Check("settings", "listeners", _listeners, CALLED | {"console"}),
    Check("settings", "console", _console, frozenset({"console"})),
    Check("settings", "operations_port", _operations_port, ALL),
    Check("settings", "logs", _logs, ALL),
    Check("settings", "broker_addresses", _broker_addresses, frozenset({"executor"})),
    Check("settings", "crash_point", _crash_point, ALL),
)
