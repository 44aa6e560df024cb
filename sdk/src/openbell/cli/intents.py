"""The commands under `openbell intents`."""

import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn
from uuid import uuid4

import typer
from typer.core import TyperCommand

from openbell.cli.calls import Call, connected
from openbell.cli.options import (
    Account,
    AllowDuplicate,
    AtMost,
    Deadline,
    DryRun,
    IdempotencyKey,
    IntentId,
    OldestFirst,
    OnlySymbol,
    Reference,
    Symbol,
    Yes,
    group,
    list_order,
    moment_of,
)
from openbell.cli.outcomes import DONE, REFUSED, interrupted_as_unknown
from openbell.errors import NotFinal, OpenbellError
from openbell.intents.orders import ActionType, Limit, Market, Side, Spec, Stop, StopLimit, TimeInForce, TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openbell.intents.requests import CreateOptions, ReplaceOptions
    from openbell.models import Action
    from openbell.receipts.records import Evaluation

app = group("Submit, list, show, count, replace and cancel intents.")

# These orders never traded, so a script that uses --wait must stop.
_REFUSED_STATES: Final = frozenset({"REJECTED", "SKIPPED", "FAILED"})

_about_account = connected(account=Account)


class _TakesNegativeNumbers(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own class
        # A quantity of -5 is refused as a quantity, not as an option.
        ctx.ignore_unknown_options = any(re.match(r"-[0-9.]", text) for text in args)
        return super().parse_args(ctx, args)


@app.command(cls=_TakesNegativeNumbers)
@_about_account
def create(
    call: Call,
    symbol: Symbol,
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
    wait_seconds: Annotated[
        float, typer.Option("--wait-seconds", min=0, help="The longest time that --wait waits.")
    ] = 30.0,
) -> None:
    """Submit a new order: a market order unless --limit or --stop is given."""
    spec = _spec(quantity, limit, stop, time_in_force)
    key = uuid4().hex if idempotency_key is None else idempotency_key
    options: CreateOptions = {
        "idempotency_key": key,
        "client_reference_id": reference,
        "deadline": moment_of("--deadline", deadline),
        "allow_duplicate": allow_duplicate,
    }
    if dry_run:
        _end_dry_run(call, call.client.evaluate(symbol=symbol, side=side, spec=spec, **options))
    call.confirm_live(f"{side} {quantity} {symbol}", yes=yes)
    with interrupted_as_unknown(key):
        action = call.client.create_intent(symbol=symbol, side=side, spec=spec, **options)
    # The intent is recorded, so its id is shown also if the wait fails.
    try:
        action = call.client.wait(action.intent_id, wait_seconds) if wait else action
    except NotFinal as error:
        action = error.action
        raise
    finally:
        _show(call, action)
        _show_shadows(call, action)
    if wait and action.execution is not None and action.execution.status in _REFUSED_STATES:
        raise typer.Exit(REFUSED)


@app.command()
@_about_account
def replace(
    call: Call,
    intent_id: IntentId,
    quantity: Annotated[str, typer.Option("--quantity", help="The new total, including what has filled.")],
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
) -> None:
    """Replace an intent's order. Pass every price that its order type has."""
    spec = _spec(quantity, limit, stop, time_in_force)
    key = uuid4().hex if idempotency_key is None else idempotency_key
    options: ReplaceOptions = {
        "idempotency_key": key,
        "client_reference_id": reference,
        "deadline": moment_of("--deadline", deadline),
    }
    if dry_run:
        _end_dry_run(call, call.client.evaluate_replace(intent_id, spec, **options))
    call.confirm_live(f"change intent {intent_id} to {quantity}", yes=yes)
    with interrupted_as_unknown(key):
        action = call.client.replace_intent(intent_id, spec, **options)
    _show(call, action)
    _show_shadows(call, action)


@app.command()
@_about_account
def cancel(
    call: Call, intent_id: IntentId, idempotency_key: IdempotencyKey = None, reference: Reference = None
) -> None:
    """Cancel an intent's order."""
    key = uuid4().hex if idempotency_key is None else idempotency_key
    with interrupted_as_unknown(key):
        action = call.client.cancel_intent(intent_id, idempotency_key=key, client_reference_id=reference)
    _show(call, action)


@app.command()
@_about_account
def show(call: Call, intent_id: IntentId) -> None:
    """Show the latest action of an intent and its execution, with the evidence if the outcome is unknown."""
    _show(call, call.client.intent(intent_id))


@app.command()
@_about_account
def history(call: Call, intent_id: IntentId) -> None:
    """List every action of an intent, the oldest first."""
    _show_all(call, call.client.actions(intent_id))


@app.command(name="list")
@_about_account
def list_actions(
    call: Call,
    symbol: OnlySymbol = None,
    action_type: Annotated[
        ActionType | None, typer.Option("--type", help="Only CREATE, REPLACE or CANCEL.", case_sensitive=False)
    ] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="Only with this reference.")] = None,
    oldest_first: OldestFirst = False,
    limit: AtMost = None,
) -> None:
    """List the recorded actions of the account, by default the newest first."""
    actions = call.client.intents(
        symbol=symbol,
        action_type=action_type,
        client_reference_id=reference,
        order=list_order(oldest_first=oldest_first),
    )
    _show_all(call, islice(actions, limit))


@app.command()
@_about_account
def stats(
    call: Call,
    window: Annotated[
        TimeWindow, typer.Option("--window", help="last_hour, last_day, last_week, last_month or all.")
    ] = "last_day",
) -> None:
    """Count the intents of a time window, by action, side, symbol and outcome."""
    statistics = call.client.stats(window)
    if call.as_json:
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


def _show(call: Call, action: "Action") -> None:
    if call.as_json:
        typer.echo(action.to_json())
        return
    from openbell.cli.tables import show_action

    show_action(action)


def _end_dry_run(call: Call, evaluation: "Evaluation") -> NoReturn:
    if call.as_json:
        typer.echo(evaluation.to_json())
    else:
        from openbell.cli.receipt_tables import show_evaluation

        show_evaluation(evaluation)
    raise typer.Exit(REFUSED if evaluation.verdict == "REFUSED" else DONE)


def _show_shadows(call: Call, action: "Action") -> None:
    """Show what rules in shadow mode would have refused; skipped if the receipt cannot be read."""
    if call.as_json:
        return
    from openbell.cli.receipt_tables import show_shadows

    with suppress(OpenbellError):
        show_shadows(call.client.receipt(action.receipt_id))


def _show_all(call: Call, actions: "Iterable[Action]") -> None:
    if call.as_json:
        for action in actions:
            typer.echo(action.to_json())
        return
    from openbell.cli.tables import show_actions

    show_actions(actions)
