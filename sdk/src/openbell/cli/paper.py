"""The commands under `openbell paper`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import Account, Json, Key, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.models import FaultPlan

app = typer.Typer(help="Break a paper account on purpose.", no_args_is_help=True, rich_markup_mode=None)


@app.command("break")
def break_it(
    faults: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...", help="Such as accept_then_hang=0.1.")],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same orders the same faults.")] = 0,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Have the account's paper broker misbehave from now on."""
    plan = dict(_fault(word) for word in faults)
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        _show(client.set_fault_plan(plan, seed=seed), as_json=as_json)


@app.command()
def mend(account: Account = None, url: Url = None, api_key: Key = None, as_json: Json = False) -> None:
    """Have it behave again."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        client.remove_fault_plan()
    typer.echo('{"faults":{}}' if as_json else "It behaves")


@app.command()
def show(account: Account = None, url: Url = None, api_key: Key = None, as_json: Json = False) -> None:
    """Show how it misbehaves."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        _show(client.fault_plan(), as_json=as_json)


def _fault(word: str) -> tuple[str, float]:
    name, _, value = word.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise typer.BadParameter(f"{word} must be a name and a number, such as hang=0.1") from None


def _show(plan: "FaultPlan", *, as_json: bool) -> None:
    named = ", ".join(f"{name}={value:g}" for name, value in plan.faults.items())
    text = f"It misbehaves by seed {plan.seed}: {named}" if named else "It behaves"
    typer.echo(plan.to_json() if as_json else printable(text))
