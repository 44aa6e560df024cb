"""Commands that measure what a broker does, with the user's own credential for its paper environment."""

import asyncio
import json
import os
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from openbell_server.domain.errors import OperatorError

if TYPE_CHECKING:
    from openbell_server.application.broker_trials.subject import Measurement
    from openbell_server.application.ports.broker import CredentialForm
    from openbell_server.processes.brokers.trial import TrialPlan

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
_FOLDER: Final = Path(".openbell/trials")
_VARIABLE: Final = "OPENBELL_TRY_"


@app.command("try")
def try_broker(
    name: Annotated[str, typer.Argument(metavar="BROKER", help="Of which broker: alpaca, tradier or paper.")],
    symbol: Annotated[str, typer.Option(help="What to trade.")] = "AAPL",
    quantity: Annotated[str, typer.Option(help="How much, in each order.")] = "1",
    price: Annotated[str, typer.Option(help="The limit, so far below the market that nothing fills.")] = "1.00",
    address: Annotated[str, typer.Option(help="Of a simulator. Default: the broker's own paper environment.")] = "",
    key: Annotated[Path, typer.Option(help="The key that signs the row; made if there is none.")] = Path("trial.key"),
    out: Annotated[Path, typer.Option(help="The row is added to this file.")] = Path("broker-trials.jsonl"),
) -> None:
    """Measure what a broker's paper environment does with ids, look-ups, lost answers, replaces and cancels.

    It sends about ten small orders that rest far below the market, and cancels all of them. Credentials come from the
    environment, OPENBELL_TRY_ and the field's name, or from a prompt.
    """
    from openbell_server.brokers.registry import BROKERS
    from openbell_server.domain.access.accounts import Environment
    from openbell_server.domain.access.credentials import Secrets
    from openbell_server.processes.brokers.trial import TrialPlan

    definition = BROKERS.get(name)
    if definition is None:
        raise OperatorError(f"There is no broker {name}; there are {', '.join(sorted(BROKERS))}.")
    own = definition.addresses.get(Environment.PAPER, "")
    if not (address or own):
        raise OperatorError(f"Add --address, where your {name} broker runs, for example http://127.0.0.1:7330.")
    spelled = definition.canonical_symbol(symbol)
    if spelled is None:
        raise OperatorError(f"{symbol} is no symbol of {name}.")
    plan = TrialPlan(
        definition=definition,
        address=address or own,
        secrets=Secrets(_secrets(definition.credentials)),
        symbol=spelled,
        quantity=_number(quantity, "--quantity"),
        price=_number(price, "--price"),
        folder=_FOLDER,
    )
    if not _try(plan, is_sandbox=plan.address == own, key=key, out=out):
        raise typer.Exit(1)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="A file of rows, one JSON object per line.")],
) -> None:
    """Check the signature of every row."""
    from openbell_server.adapters.broker_trials.trial_rows import is_signed

    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise OperatorError(f"{file} cannot be read: {error}.") from error
    wrong = [number for number, row in enumerate(rows, 1) if not (isinstance(row, dict) and is_signed(row))]
    if wrong:
        raise OperatorError(f"{file}: not as they were signed: lines {', '.join(map(str, wrong))}.")
    typer.echo(f"{len(rows)} rows, each as it was signed.")


def _try(plan: "TrialPlan", *, is_sandbox: bool, key: Path, out: Path) -> bool:
    """Write the row and show it; whether the broker does what its adapter relies on."""
    from openbell_server.adapters.broker_trials.trial_rows import signed_row, signing_key
    from openbell_server.application.broker_trials.subject import TrialStopped
    from openbell_server.processes.brokers.trial import run_trial

    try:
        signer = signing_key(key)
    except (OSError, ValueError) as error:
        raise OperatorError(f"{key} cannot be used to sign: {error}.") from error
    try:
        measurements = asyncio.run(run_trial(plan))
    except TrialStopped as error:
        raise OperatorError(str(error)) from error
    row = signed_row(
        signer,
        broker=plan.definition.name,
        is_sandbox=is_sandbox,
        version=version("openbell-server"),
        at=datetime.now(UTC),
        measurements=measurements,
    )
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    _show(measurements)
    typer.echo(f"\nEvery order was cancelled. The signed row is in {out}.")
    return all(each.agrees for each in measurements)


def _secrets(form: "CredentialForm | None") -> dict[str, str]:
    """From the environment; what is missing there is asked for."""
    if form is None:
        return {}
    found = {each.name: os.environ.get(_VARIABLE + each.name.upper(), "") for each in form.fields}
    if not form.required and not any(found.values()):
        return {}
    return {each.name: found[each.name] or typer.prompt(each.title, hide_input=each.secret) for each in form.fields}


def _number(text: str, option: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal(0)
    if not (number.is_finite() and number > 0):
        raise OperatorError(f"{option} must be a positive number.")
    return number


def _show(measurements: "list[Measurement]") -> None:
    for each in measurements:
        mark = "  " if each.agrees else "! "
        documented = f", documented: {each.documented}" if not each.agrees else ""
        evidence = f" ({each.evidence})" if each.evidence else ""
        typer.echo(f"{mark}{each.name}: {each.measured}{documented}{evidence}")
