"""The command that checks a platform."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

import typer

from openbell_server.cli.operators import AsJson, known
from openbell_server.cli.processes import PROCESSES
from openbell_server.domain.errors import OperatorError

if TYPE_CHECKING:
    from openbell_server.processes.doctor.findings import Finding

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red", "cannot tell": "yellow"}


def doctor(
    process: Annotated[
        str, typer.Option("--for", help="The process that has these settings; executors need more than the others.")
    ] = "api",
    as_json: AsJson = False,
) -> None:
    """Check settings, database, NATS, Redis, vault, identity and work; every problem is printed with its fix.

    The settings come from the environment. Exit 0 if all is well, 1 if there is a problem, 2 if there is none and a
    check could not be made.
    """
    from openbell_server.processes.doctor.findings import Finding, Level
    from openbell_server.processes.doctor.run_checks import exit_code, report, run_checks
    from openbell_server.settings import Settings
    from openbell_server.telemetry.logs import configure_logging

    known([process], PROCESSES, "process")
    # The findings repeat what the parts would log.
    configure_logging("doctor", "CRITICAL")
    try:
        findings = asyncio.run(run_checks(Settings(), process))
    except OperatorError as error:
        # Without settings no other check can run.
        findings = [Finding("settings", "readable", Level.PROBLEM, "The settings cannot be read.", str(error))]
    if as_json:
        typer.echo(json.dumps(report(process, findings)))
    else:
        _print(findings)
    raise typer.Exit(exit_code(findings))


def _print(findings: "list[Finding]") -> None:
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.plain_text import printable
    from openbell.cli.tables import console

    out = console()
    for area in dict.fromkeys(finding.area for finding in findings):
        table = Table(box=None, show_header=False, padding=(0, 1))
        table.add_column(no_wrap=True, width=11)
        table.add_column()
        alike: dict[tuple[str, str, str], list[str]] = {}
        for finding in (each for each in findings if each.area == area):
            alike.setdefault((finding.level, finding.what, finding.fix), []).append(finding.check)
        for (level, what, fix), names in alike.items():
            text = Text(printable(what if len(names) == 1 else f"{', '.join(names)}: {what}"))
            if fix:
                text.append(f"\n{printable(fix)}", style="bold")
            table.add_row(Text(level, style=_STYLES[level]), text)
        out.print(Text(area, style="bold"))
        out.print(table)
    counts = {level: sum(finding.level == level for finding in findings) for level in _STYLES}
    out.print("\n" + ", ".join(f"{count} {level}" for level, count in counts.items() if count) + ".")
