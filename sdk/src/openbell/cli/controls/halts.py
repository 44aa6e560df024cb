"""The command `openbell halt-report`."""

from typing import TYPE_CHECKING

from openbell.cli.calls import Call, connected
from openbell.cli.options import AccountArgument
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from openbell.controls.halts import Halt, HaltReport

_ANSWERS = {True: ("yes", "bold green"), False: ("no", "bold red"), None: ("not known", "bold yellow")}


@connected(account=AccountArgument, token=True)
def show_halt_report(call: Call) -> None:
    """Show the halts of an account, their effect since, and whether an order is still working."""
    call.show(call.client.halt_report(), _show)


def _show(report: "HaltReport") -> None:
    from rich.text import Text

    from openbell.cli.tables import console

    out = console()
    answer, style = _ANSWERS[report.no_working_orders]
    line = Text("no working orders  ", style="dim").append(answer, style=style)
    if report.why:
        line.append(f": {printable(report.why)}")
    out.print(line)
    compared = "never" if report.compared_at is None else f"{report.compared_at:%Y-%m-%d %H:%M:%S}"
    out.print(Text(f"as of {report.as_of:%Y-%m-%d %H:%M:%S}, the broker's list was read up to {compared} (UTC)"))
    if not report.halts:
        out.print("\nNo halt is in force.")
    for halt in report.halts:
        _show_halt(out, halt)
    _show_open(out, report)


def _show_halt(out: "Console", halt: "Halt") -> None:
    from rich.text import Text

    from openbell.cli.tables import facts_table

    of = halt.symbol or halt.api_key_id
    cancels, in_flight = halt.cancels, [f"{c.action_type} {c.intent_id} {c.status}" for c in halt.in_flight_commands]
    facts: dict[str, object] = {
        "since": f"{halt.since:%Y-%m-%d %H:%M:%S.%f} UTC, version {halt.version}",
        "set by": " ".join(filter(None, (halt.principal_type, halt.principal_id))),
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
    out.print(Text(f"\n{halt.status} {halt.scope}{f' {printable(of)}' if of else ''}", style="bold"))
    table = facts_table()
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, Text("\n".join(printable(line) for line in str(value).split("\n"))))
    out.print(table)


def _show_open(out: "Console", report: "HaltReport") -> None:
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
