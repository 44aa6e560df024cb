"""Commands that halt and resume trading; they need only the database."""

from typing import Annotated
from uuid import UUID

import typer

from openbell_server.cli.operators import ActingAs, AsJson, operate, show_facts, show_list
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.names import REASON_LENGTH_MAX

LISTED = (
    *("scope", "status", "halted_at", "organization_id", "account_id", "symbol", "api_key_id"),
    *("cancel_working", "version", "set_by", "reason"),
)
Organization = Annotated[UUID | None, typer.Option(help="Only this organization.")]
Account = Annotated[UUID | None, typer.Option(help="Only this account.")]
Reason = Annotated[str, typer.Option(help="Why, for everyone who reads the report.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def halt(
    context: typer.Context,
    organization: Organization = None,
    account: Account = None,
    reason: Reason = "",
    reduce_only: Annotated[bool, typer.Option("--reduce-only", help="Permit commands that reduce positions.")] = False,
    cancel_working: Annotated[bool, typer.Option(help="Cancel working orders, or leave them open.")] = True,
    yes: Yes = False,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Stop sending orders, from the moment this returns: of the whole platform, an organization or an account."""
    if context.invoked_subcommand is not None:
        return
    from openbell_server.domain.controls.rules import SwitchState

    state = SwitchState.REDUCE_ONLY if reduce_only else SwitchState.HALTED
    _check(organization, account, reason)
    _confirm(f"Set {_scope(organization, account)} to {state}", yes=yes)
    done = operate(
        lambda store: store.halts.set_switch(organization, account, state, reason, cancel_working=cancel_working),
        acting_as,
    )
    show_facts(done, as_json=as_json)
    if not as_json:
        then = "Executors cancel the working orders there" if cancel_working else "Working orders there stay open"
        typer.echo(
            f"\nCommands that this switch refuses are no longer sent. {then}; the halt report of each account shows the"
            " outcome."
        )


def resume(
    organization: Organization = None,
    account: Account = None,
    reason: Reason = "",
    yes: Yes = False,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Permit sending orders again that a halt at this scope stopped; halts at other scopes stay."""
    from openbell_server.domain.controls.rules import SwitchState

    _check(organization, account, reason)
    _confirm(f"Set {_scope(organization, account)} to {SwitchState.ACTIVE}", yes=yes)
    done = operate(lambda store: store.halts.set_switch(organization, account, SwitchState.ACTIVE, reason), acting_as)
    show_facts(done, as_json=as_json)


@app.command()
def status(as_json: AsJson = False) -> None:
    """List all switches that stop something now, oldest first."""
    found = operate(lambda store: store.halts.list_halts())
    if found or as_json:
        show_list("halts", found, LISTED, as_json=as_json)
    else:
        typer.echo("No halt is in force.")


def _check(organization: UUID | None, account: UUID | None, reason: str) -> None:
    if organization is not None and account is not None:
        raise OperatorError("Use --organization or --account, not both: an account has one organization.")
    if not reason.strip() or len(reason) > REASON_LENGTH_MAX or not reason.isprintable():
        raise OperatorError(f"--reason takes 1 to {REASON_LENGTH_MAX} printable characters, not only spaces.")


def _scope(organization: UUID | None, account: UUID | None) -> str:
    if account is not None:
        return f"account {account}"
    return "the whole platform" if organization is None else f"organization {organization}"


def _confirm(what: str, *, yes: bool) -> None:
    if not yes:
        typer.confirm(f"{what}?", abort=True, err=True)
