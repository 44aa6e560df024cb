"""The commands under `openbell intents`."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from openbell.cli.options import (
    Account,
    AllowDuplicate,
    Deadline,
    DryRun,
    IdempotencyKey,
    Json,
    Key,
    Reference,
    Url,
    Yes,
    client_for,
    confirm_live,
    moment_of,
)
from openbell.cli.outcomes import DONE, REFUSED, interrupted_as_unknown, told_plainly
from openbell.errors import NotFinal, OpenbellError
from openbell.orders import ActionType, Limit, Market, Side, Spec, Stop, StopLimit, TimeInForce, TimeWindow

if TYPE_CHECKING:
    from openbell.client import Client
    from openbell.models import Action
    from openbell.receipts import Evaluation
    from openbell.requests import CreateOptions, ReplaceOptions

app = typer.Typer(
    help="Submit, list, show, count, replace and cancel intents.", no_args_is_help=True, rich_markup_mode=None
)

# An order that ends so never traded, so a script that waits for it must not go on.
_REFUSED_STATES: Final = frozenset({"REJECTED", "SKIPPED", "FAILED"})


@app.command()
def create(
    symbol: Annotated[str, typer.Argument(metavar="SYMBOL", help="Such as AAPL.")],
    side: Annotated[Side, typer.Argument(metavar="BUY|SELL|SELL_SHORT", case_sensitive=False)],
    quantity: Annotated[str, typer.Argument(metavar="QUANTITY", help="A plain decimal, such as 10 or 0.5.")],
    limit: Annotated[str | None, typer.Option("--limit", help="Limit price.")] = None,
    stop: Annotated[str | None, typer.Option("--stop", help="Stop price; with --limit a stop-limit order.")] = None,
    time_in_force: Annotated[
        TimeInForce | None, typer.Option("--time-in-force", help="Default: the broker's.", case_sensitive=False)
    ] = None,
    idempotency_key: IdempotencyKey = None,
    reference: Reference = None,
    deadline: Deadline = None,
    allow_duplicate: AllowDuplicate = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the order is final.")] = False,
    wait_seconds: Annotated[float, typer.Option("--wait-seconds", min=0, help="How long --wait waits.")] = 30.0,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask for a new order: a market order unless --limit or --stop is given."""
    with told_plainly(as_json=as_json):
        spec = _spec(quantity, limit, stop, time_in_force)
        from openbell.requests import new_idempotency_key

        key = new_idempotency_key() if idempotency_key is None else idempotency_key
        options: CreateOptions = {
            "idempotency_key": key,
            "client_reference_id": reference,
            "deadline": moment_of("--deadline", deadline),
            "allow_duplicate": allow_duplicate,
        }
        with client_for(url, api_key, account) as client:
            if dry_run:
                _end_dry_run(client.evaluate(symbol=symbol, side=side, spec=spec, **options), as_json=as_json)
            confirm_live(client, f"{side} {quantity} {symbol}", yes=yes, key=api_key)
            with interrupted_as_unknown(key):
                action = client.create_intent(symbol=symbol, side=side, spec=spec, **options)
            # Whatever becomes of the wait, the intent is recorded and the caller must learn its id.
            try:
                action = client.wait(action.intent_id, wait_seconds) if wait else action
            except NotFinal as error:
                action = error.action
                raise
            finally:
                _show(action, as_json=as_json)
                _show_shadows(client, action, as_json=as_json)
    if wait and action.execution is not None and action.execution.state in _REFUSED_STATES:
        raise typer.Exit(REFUSED)


@app.command()
def replace(
    intent_id: Annotated[str, typer.Argument(metavar="ID", help="The intent's id.")],
    quantity: Annotated[str, typer.Option("--quantity", help="The new total, with what has filled.")],
    limit: Annotated[str | None, typer.Option("--limit", "--price", help="Limit price.")] = None,
    stop: Annotated[str | None, typer.Option("--stop", help="Stop price.")] = None,
    time_in_force: Annotated[
        TimeInForce | None, typer.Option("--time-in-force", help="Default: the order's.", case_sensitive=False)
    ] = None,
    idempotency_key: IdempotencyKey = None,
    reference: Reference = None,
    deadline: Deadline = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask that an intent's order be changed; give every price that its kind has."""
    with told_plainly(as_json=as_json):
        spec = _spec(quantity, limit, stop, time_in_force)
        from openbell.requests import new_idempotency_key

        key = new_idempotency_key() if idempotency_key is None else idempotency_key
        options: ReplaceOptions = {
            "idempotency_key": key,
            "client_reference_id": reference,
            "deadline": moment_of("--deadline", deadline),
        }
        with client_for(url, api_key, account) as client:
            if dry_run:
                _end_dry_run(client.evaluate_replace(intent_id, spec, **options), as_json=as_json)
            confirm_live(client, f"change intent {intent_id} to {quantity}", yes=yes, key=api_key)
            with interrupted_as_unknown(key):
                action = client.replace_intent(intent_id, spec, **options)
            _show(action, as_json=as_json)
            _show_shadows(client, action, as_json=as_json)


@app.command()
def cancel(
    intent_id: Annotated[str, typer.Argument(metavar="ID", help="The intent's id.")],
    idempotency_key: IdempotencyKey = None,
    reference: Reference = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask that an intent's order be cancelled."""
    with told_plainly(as_json=as_json):
        from openbell.requests import new_idempotency_key

        key = new_idempotency_key() if idempotency_key is None else idempotency_key
        with client_for(url, api_key, account) as client, interrupted_as_unknown(key):
            action = client.cancel_intent(intent_id, idempotency_key=key, client_reference_id=reference)
        _show(action, as_json=as_json)


@app.command()
def show(
    intent_id: Annotated[str, typer.Argument(metavar="ID", help="The intent's id.")],
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Show where an intent stands, and what is known where nobody can say."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        _show(client.intent(intent_id), as_json=as_json)


@app.command()
def history(
    intent_id: Annotated[str, typer.Argument(metavar="ID", help="The intent's id.")],
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """List every action of an intent, oldest first."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        _show_all(client.actions(intent_id), as_json=as_json)


@app.command(name="list")
def list_actions(
    symbol: Annotated[str | None, typer.Option("--symbol", help="Only of this symbol.")] = None,
    action_type: Annotated[
        ActionType | None, typer.Option("--type", help="Only CREATE, REPLACE or CANCEL.", case_sensitive=False)
    ] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="Only with this reference.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")] = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """List the recorded actions of the account, oldest first."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        actions = client.intents(symbol=symbol, action_type=action_type, client_reference_id=reference)
        _show_all(islice(actions, limit), as_json=as_json)


@app.command()
def stats(
    window: Annotated[
        TimeWindow, typer.Option("--window", help="last_hour, last_day, last_week, last_month or all.")
    ] = "last_day",
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Count what was asked in a time window, and what came of it."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        statistics = client.stats(window)
        if as_json:
            typer.echo(statistics.to_json())
            return
        from openbell.cli.tables import show_statistics

        show_statistics(statistics)


def _spec(quantity: str, limit: str | None, stop: str | None, time_in_force: TimeInForce | None) -> Spec:
    if limit is not None and stop is not None:
        return StopLimit(quantity, stop_price=stop, price=limit, time_in_force=time_in_force)
    if limit is not None:
        return Limit(quantity, price=limit, time_in_force=time_in_force)
    if stop is not None:
        return Stop(quantity, stop_price=stop, time_in_force=time_in_force)
    return Market(quantity, time_in_force=time_in_force)


def _show(action: "Action", *, as_json: bool) -> None:
    if as_json:
        typer.echo(action.to_json())
        return
    from openbell.cli.tables import show_action

    show_action(action)


def _end_dry_run(evaluation: "Evaluation", *, as_json: bool) -> NoReturn:
    if as_json:
        typer.echo(evaluation.to_json())
    else:
        from openbell.cli.receipt_tables import show_evaluation

        show_evaluation(evaluation)
    raise typer.Exit(REFUSED if evaluation.verdict == "REFUSED" else DONE)


def _show_shadows(client: "Client", action: "Action", *, as_json: bool) -> None:
    """What rules in shadow mode would have refused; whoever may not read receipts, or cannot now, goes without."""
    if as_json:
        return
    from openbell.cli.receipt_tables import show_shadows

    with suppress(OpenbellError):
        show_shadows(client.receipt(action.receipt_id))


def _show_all(actions: Iterable["Action"], *, as_json: bool) -> None:
    if as_json:
        for action in actions:
            typer.echo(action.to_json())
        return
    from openbell.cli.tables import show_actions

    show_actions(actions)
