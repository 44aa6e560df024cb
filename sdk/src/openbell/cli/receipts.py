"""The commands under `openbell receipts`."""

import json
import os
import re
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import Account, AccountArgument, AtMost, Json, group
from openbell.cli.outcomes import REFUSED, errors_as_messages
from openbell.cli.plain_text import printable
from openbell.json_lines import json_line

if TYPE_CHECKING:
    from openbell.receipts.verification import KnownHead, Verification

app = group("Read why commands passed or were refused, and verify it offline.")
# A longer file is not a single receipt.
RECEIPT_BYTES_MAX: Final = 16 * 1024 * 1024
FLAWS_SHOWN: Final = 20
_HEAD: Final = re.compile(r"([0-9]{1,18}):([0-9a-f]{64})")


@app.command()
@connected(account=Account)
def show(
    call: Call,
    receipt_id: Annotated[str | None, typer.Argument(metavar="RECEIPT", help="The receipt's id.")] = None,
    intent: Annotated[str | None, typer.Option("--intent", help="All receipts of this intent instead.")] = None,
) -> None:
    """Show a receipt, or those of an intent: each rule, its limit, the observed value, and the verdict."""
    if (receipt_id is None) == (intent is None):
        raise ValueError("Pass the id of a receipt, or --intent and the id of an intent.")
    if intent is not None:
        receipts = call.client.receipts_of_intent(intent)
    else:
        receipts = iter([call.client.receipt(str(receipt_id))])
    for receipt in receipts:
        if call.as_json:
            typer.echo(receipt.to_json())
            continue
        from openbell.cli.receipt_tables import show_receipt

        show_receipt(receipt)


@app.command()
@connected(account=AccountArgument)
def refusals(call: Call, limit: AtMost = None) -> None:
    """List what controls refused, the oldest first: the rule, its limit, the observed value, and what would pass."""
    found = islice(call.client.refusals(), limit)
    if call.as_json:
        for receipt in found:
            typer.echo(receipt.to_json())
        return
    from openbell.cli.receipt_tables import show_refusals

    show_refusals(found)


@app.command()
@connected(account=AccountArgument)
def export(
    call: Call, output: Annotated[Path, typer.Option("--output", help="The file to write, one JSON object per line.")]
) -> None:
    """Write every action with its receipt and every refusal to a file that can be verified offline."""
    from openbell.receipts.records import export_lines

    heads = call.client.chain()
    # The file gets its name when it is complete, so an interrupted export cannot be mistaken for a complete one.
    unfinished = output.with_name(f"{output.name}.part")
    with unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for line in export_lines(heads, call.client.chained_actions(), call.client.refusals()):
            file.write(f"{line.to_json()}\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(output)
    if call.as_json:
        typer.echo(heads.to_json())
        return
    typer.echo(f"{heads.actions} actions and {heads.refusals} refusals are in {output}.")
    _show_heads(f"{heads.actions}:{heads.chain_head}", f"{heads.refusals}:{heads.refusal_head}")


@app.command()
def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="An export, or one receipt as JSON.")
    ],
    chain_head: Annotated[
        str | None, typer.Option("--chain-head", help="NUMBER:HASH of the actions, from an earlier export.")
    ] = None,
    refusal_head: Annotated[
        str | None, typer.Option("--refusal-head", help="NUMBER:HASH of the refusals, from an earlier export.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a file offline: every hash, both chains, and every verdict. Exits with 1 if anything is wrong."""
    with errors_as_messages(as_json=as_json):
        known = _known("--chain-head", chain_head), _known("--refusal-head", refusal_head)
        with file.open("rb") as opened:
            result, is_export = _verified(opened, *known)
    if as_json:
        typer.echo(json_line({"holds": result.holds, **asdict(result)}))
    elif is_export:
        _show_export(result)
    else:
        _show_flaws(result)
        if result.holds:
            typer.echo("Its hash and every verdict are right.")
    raise typer.Exit(0 if result.holds else REFUSED)


def _known(option: str, text: str | None) -> "KnownHead | None":
    if text is None:
        return None
    match = _HEAD.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{option} must be a number, a colon and 64 hexadecimal digits, as export prints them.")
    return int(match[1]), match[2]


def _verified(
    file: IO[bytes], chain_head: "KnownHead | None", refusal_head: "KnownHead | None"
) -> "tuple[Verification, bool]":
    from openbell.receipts.verification import verify_export, verify_receipt

    first = file.readline(RECEIPT_BYTES_MAX)
    try:
        begun = json.loads(first)
    except (ValueError, RecursionError):
        begun = None
    if (isinstance(begun, dict) and "kind" not in begun) or (begun is None and first.lstrip().startswith(b"{")):
        return verify_receipt(first + file.read(RECEIPT_BYTES_MAX)), False
    return verify_export(chain([first] if first else [], file), chain_head, refusal_head), True


def _show_export(result: "Verification") -> None:
    _show_flaws(result)
    whose = f"account {printable(result.account_id)}" if result.account_id else "no account"
    counted = f"{result.actions} actions and {result.refusals} refusals of {whose}"
    if result.holds:
        typer.echo(f"{counted}: every hash, both chains and every verdict are right.")
    else:
        typer.echo(f"{counted}: {result.found} things are wrong.")
    _show_heads(f"{result.actions}:{result.chain_head}", f"{result.refusals}:{result.refusal_head}")


def _show_flaws(result: "Verification") -> None:
    for flaw in result.flaws[:FLAWS_SHOWN]:
        typer.echo(f"WRONG  {printable(str(flaw))}")
    if result.found > FLAWS_SHOWN:
        typer.echo(f"… and {result.found - FLAWS_SHOWN} more; --json has the first {len(result.flaws)}.")


def _show_heads(chain_head: str, refusal_head: str) -> None:
    typer.echo(f"chain head    {chain_head}")
    typer.echo(f"refusal head  {refusal_head}")
