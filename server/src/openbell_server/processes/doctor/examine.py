"""Looks the platform over with every check."""

from collections.abc import Mapping
from typing import Any, Final

from openbell_server.processes.doctor import (
    calendar_checks,
    database_checks,
    identity_checks,
    service_checks,
    settings_checks,
    vault_checks,
    work_checks,
)
from openbell_server.processes.doctor.findings import Finding, Level, a_patient, look_over
from openbell_server.settings import Settings

CHECKS: Final = (
    *settings_checks.CHECKS,
    *database_checks.CHECKS,
    *service_checks.CHECKS,
    *vault_checks.CHECKS,
    *identity_checks.CHECKS,
    *work_checks.CHECKS,
    *calendar_checks.CHECKS,
)


async def examine(settings: Settings, process: str) -> list[Finding]:
    """What there is to say about the platform that a process with these settings is part of."""
    async with a_patient(settings, process) as patient:
        return await look_over(patient, CHECKS)


def report(process: str, findings: list[Finding]) -> Mapping[str, Any]:
    """The same as one JSON object."""
    levels = [finding.level for finding in findings]
    return {
        "for": process,
        "problems": levels.count(Level.PROBLEM),
        "warnings": levels.count(Level.WARNING),
        "cannot_tell": levels.count(Level.CANNOT_TELL),
        "findings": [
            {"area": f.area, "check": f.check, "level": str(f.level), "what": f.what, "fix": f.fix} for f in findings
        ],
    }
