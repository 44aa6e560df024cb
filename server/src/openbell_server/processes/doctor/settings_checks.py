"""What the settings alone show."""

import ipaddress
import logging
from typing import Final

from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access_tokens import LOOPBACK
from openbell_server.domain.errors import OperatorError
from openbell_server.processes.broker_addresses import broker_addresses
from openbell_server.processes.doctor.findings import ALL, CALLED, Check, Patient, Said, fine, problem, warning

SECRET_LENGTH_MIN: Final = 32
# A secret of few different characters was not made by a machine.
SECRET_CHARACTERS_MIN: Final = 8


async def _cursor_secret(patient: Patient) -> Said:
    secret = patient.settings.cursor_secret.get_secret_value()
    make = "Set OPENBELL_CURSOR_SECRET to the output of `openssl rand -hex 32`, the same on every replica."
    if not secret:
        return problem("There is no secret for cursors and resume tokens, and the process will not start.", make)
    if len(secret) < SECRET_LENGTH_MIN or len(set(secret)) < SECRET_CHARACTERS_MIN:
        return problem("The secret that signs cursors and resume tokens is weak enough to be guessed.", make)
    return fine("The secret for cursors and resume tokens is long enough.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK


async def _listeners(patient: Patient) -> Said:
    settings = patient.settings
    host = settings.api_host if patient.process == "api" else settings.stream_host
    if _is_loopback(host):
        return fine(f"It listens at {host}, for a proxy on this machine.")
    variable = f"OPENBELL_{patient.process.upper()}_HOST"
    return warning(
        f"It listens at {host} without TLS: keys and tokens can be read on the way.",
        f"Set {variable} to 127.0.0.1 behind a proxy with TLS, or keep this network to yourself and the proxy.",
    )


async def _operations_port(patient: Patient) -> Said:
    settings = patient.settings
    if not settings.operations_port:
        return warning(
            "Nobody can see metrics and readiness: the operations port is off.",
            "Set OPENBELL_OPERATIONS_PORT, another one for each process on a machine.",
        )
    if not _is_loopback(settings.operations_host):
        return warning(
            f"The operations port is open at {settings.operations_host} and asks nobody who they are.",
            "Set OPENBELL_OPERATIONS_HOST to 127.0.0.1, or to an address that only your monitoring reaches.",
        )
    return fine(f"Metrics and readiness are at {settings.operations_host}:{settings.operations_port}.")


async def _logs(patient: Patient) -> Said:
    level = patient.settings.log_level
    if level not in logging.getLevelNamesMapping():
        return problem("The log level is none, and the process will not start.", "Set OPENBELL_LOG_LEVEL to INFO.")
    return fine(f"Logs are written from {level} upwards.")


async def _broker_addresses(patient: Patient) -> Said:
    if not patient.settings.broker_addresses:
        return None
    try:
        broker_addresses(patient.settings, BROKERS)
    except OperatorError as error:
        return problem(str(error), "Set OPENBELL_BROKER_ADDRESSES right or remove it: executors will not start.")
    return warning(
        f"Asked elsewhere than at their own addresses: {', '.join(sorted(patient.settings.broker_addresses))}.",
        "Remove OPENBELL_BROKER_ADDRESSES where nothing stands between us and the broker.",
    )


async def _crash_point(patient: Patient) -> Said:
    if not patient.settings.crash_at:
        return None
    return problem("The process is told to kill itself, as only tests do.", "Remove OPENBELL_CRASH_AT.")


CHECKS: Final = (
    Check("settings", "cursor_secret", _cursor_secret, CALLED),
    Check("settings", "listeners", _listeners, CALLED),
    Check("settings", "operations_port", _operations_port, ALL),
    Check("settings", "logs", _logs, ALL),
    Check("settings", "broker_addresses", _broker_addresses, frozenset({"executor"})),
    Check("settings", "crash_point", _crash_point, ALL),
)
