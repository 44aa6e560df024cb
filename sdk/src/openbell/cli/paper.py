"""The commands under `openbell paper`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import Account, group
from openbell.cli.plain_text import named_number

if TYPE_CHECKING:
    from openbell.models import FaultPlan

app = group("Make a paper account fail on purpose.")

_about_account = connected(account=Account)


@app.command("break")
@_about_account
def break_it(
    call: Call,
    faults: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="For example accept_then_hang=0.1.")],
    seed: Annotated[int, typer.Option("--seed", help="With the same seed, the same orders get the same faults.")] = 0,
) -> None:
    """Make the account's paper broker fail from now on."""
    _show(call, call.client.set_fault_plan(dict(named_number(entry, float, "hang=0.1") for entry in faults), seed=seed))


@app.command("mend")
@_about_account
def repair(call: Call) -> None:
    """Remove the faults of the account's paper broker."""
    call.client.remove_fault_plan()
    typer.echo('{"faults":{}}' if call.as_json else "No faults")


@app.command()
@_about_account
def show(call: Call) -> None:
    """Show the faults of the account's paper broker."""
    _show(call, call.client.fault_plan())


def _show(call: Call, plan: "FaultPlan") -> None:
    faults = ", ".join(f"{name}={value:g}" for name, value in plan.faults.items())
    call.show_line(plan, f"Faults with seed {plan.seed}: {faults}" if faults else "No faults")
