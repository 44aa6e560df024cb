"""The command `openbell halt-report`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import AccountArgument
from openbell.cli.plain_text import printable, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from openbell.controls.halts import HaltedAccount, HaltReport

_ANSWERS = {True: ("yes", "bold green"), False: ("no", "bold red"), None: ("not known", "bold yellow")}


@connected(account=AccountArgument, token=True)
def show_halt_reports(
    call: Call,
    last: Annotated[bool, typer.Option("--last", help="Show the report of the newest halt.")] = False,
    report_id: Annotated[str | None, typer.Option("--id", help="Show the report with this id.")] = None,
) -> None:
    """List the halts of an account, or show the report of one: its effect, and whether an order is still working."""
    if last or report_id:
        call.show(call.client.halt_report(report_id=report_id), _show)
        return
    call.show_table(
        call.client.halt_reports(),
        ("id", "halt", "since", "until", "by", "reason"),
        lambda report: (
            report.id,
            f"{report.status} {report.place}",
            time_text(report.since),
            time_text(report.until) or "in force",
            _principal(report),
            report.reason or "",
        ),
    )


def _show(report: "HaltReport") -> None:
    from rich.text import Text

    from openbell.cli.tables import console

    out = console()
    answer, style = _ANSWERS[report.no_working_orders]
    line = Text("no working orders  ", style="dim").append(answer, style=style)
    if report.why:
        line.append(f": {printable(report.why)}")
    out.print(line)
    compared = time_text(report.compared_at) or "never"
    as_of = "" if report.account is None else f"as of {time_text(report.account.as_of)}, "
    out.print(Text(f"{as_of}the broker's list was read up to {compared}"))
    _show_halt(out, report)
    if report.account is not None:
        _show_open(out, report.account)


def _principal(report: "HaltReport") -> str:
    return " ".join(filter(None, (report.principal_type, report.principal_id)))


def _show_halt(out: "Console", halt: "HaltReport") -> None:
    from rich.text import Text

    from openbell.cli.tables import facts_table

    cancels, in_flight = halt.cancels, [f"{c.action_type} {c.intent_id} {c.status}" for c in halt.in_flight_commands]
    facts: dict[str, object] = {
        "since": f"{halt.since:%Y-%m-%d %H:%M:%S.%f} UTC, version {halt.version}",
        "until": halt.until and f"{halt.until:%Y-%m-%d %H:%M:%S.%f} UTC",
        "set by": _principal(halt),
        "reason": halt.reason,
        "doors opened after": halt.doors_opened_after,
        "doors of commands that reduce": halt.reducing_doors_after or None,
        "in flight at the halt": "\n".join([str(halt.in_flight), *in_flight[:20]]),
        "queued, skipped": f"{halt.queued}, {halt.skipped}",
        "cancels": f"{cancels.asked} asked, {cancels.confirmed} confirmed, {cancels.ended_otherwise} ended otherwise,"
        f" {cancels.waiting} waiting"
        if halt.cancel_working
        else "none: working orders are not cancelled",
        "last cancel confirmed": cancels.last_confirmed_at and f"{cancels.last_confirmed_at:%Y-%m-%d %H:%M:%S.%f} UTC",
    }
    out.print(Text(printable(f"{halt.status} {halt.place}"), style="bold"))
    table = facts_table()
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, Text("\n".join(printable(line) for line in str(value).split("\n"))))
    out.print(table)


def _show_open(out: "Console", report: "HaltedAccount") -> None:
    from rich.text import Text

    from openbell.cli.tables import show_rows

    out.print(
        f"\n{report.open_orders} orders open, {report.in_doubt} commands without an outcome,"
        f" {report.external_open_orders} open orders that were not submitted here"
    )
    if report.orders:
        show_rows(
            ("intent", "symbol", "status", "in doubt"),
            ((each.intent_id, each.symbol, each.status, "yes" if each.in_doubt else "") for each in report.orders),
        )
    for broker_order_id in report.external_orders:
        out.print(Text(f"not ours: {printable(broker_order_id)}"))
