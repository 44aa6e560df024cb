"""Runs every check of doctor."""

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
from openbell_server.processes.doctor.findings import Finding, Level, look_over, open_target
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


async def run_checks(settings: Settings, process: str) -> list[Finding]:
    """Check the platform with the settings of one process."""
    async with open_target(settings, process) as target:
        return await look_over(target, CHECKS)


def exit_code(findings: list[Finding]) -> int:
    """0 if all is well, 1 if there is a problem, 2 if there is none and a check could not be made."""
    levels = {finding.level for finding in findings}
    if Level.PROBLEM in levels:
        return 1
    return 2 if Level.CANNOT_TELL in levels else 0


def report(process: str, findings: list[Finding]) -> Mapping[str, Any]:
    """The findings as one JSON object."""
    levels = [finding.level for finding in findings]
    return {
        "for": process,
        "exit_code": exit_code(findings),
        "problems": levels.count(Level.PROBLEM),
        "warnings": levels.count(Level.WARNING),
        "cannot_tell": levels.count(Level.CANNOT_TELL),
        "findings": [
            {"area": f.area, "check": f.check, "level": str(f.level), "what": f.what, "fix": f.fix} for f in findings
        ],
    }
