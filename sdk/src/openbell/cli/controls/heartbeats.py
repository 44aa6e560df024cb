"""The commands under `openbell heartbeat`."""

from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import group
from openbell.cli.plain_text import time_text
from openbell.json_lines import json_line

if TYPE_CHECKING:
    from openbell.controls.heartbeats import Heartbeat

app = group("Promise heartbeats: a key or an account that misses one is halted.")

OfAccount = Annotated[str | None, typer.Option("--account", help="Of this account instead of the calling key.")]
OfKey = Annotated[str | None, typer.Option("--api-key-id", help="Of this API key; takes an admin's token.")]


@app.command("arm")
@connected(token=True)
def arm_heartbeats(
    call: Call,
    timeout_seconds: Annotated[int, typer.Argument(metavar="SECONDS", help="5 to 300.")],
    cancel_working: Annotated[
        bool, typer.Option("--cancel-working", help="A missed heartbeat also cancels every working order.")
    ] = False,
    account_id: OfAccount = None,
    api_key_id: OfKey = None,
) -> None:
    """Promise a heartbeat within each SECONDS, or send one: run it again before the time is over."""
    armed = call.client.send_heartbeat(
        timeout_seconds, cancel_working=cancel_working, account_id=account_id, api_key_id=api_key_id
    )
    _show(call, [armed])


@app.command("show")
@connected(token=True)
def show_heartbeats(call: Call) -> None:
    """List the promises of the organization, also those that were missed."""
    _show(call, list(call.client.heartbeats()))


@app.command("disarm")
@connected(token=True)
def disarm_heartbeats(call: Call, account_id: OfAccount = None, api_key_id: OfKey = None) -> None:
    """End the promise."""
    call.client.disarm_heartbeats(account_id=account_id, api_key_id=api_key_id)
    typer.echo(json_line({"disarmed": True}) if call.as_json else "the promise is disarmed")


def _show(call: Call, heartbeats: "list[Heartbeat]") -> None:
    call.show_table(
        heartbeats,
        ("of", "status", "seconds", "cancels", "required", "last heartbeat", "expires"),
        lambda each: (
            each.place,
            each.status,
            str(each.timeout_seconds),
            "yes" if each.cancel_working else "no",
            "yes" if each.required else "no",
            time_text(each.last_beat_at),
            time_text(each.expires_at),
        ),
    )
