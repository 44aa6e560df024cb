"""The commands under `openbell events`."""

import sys
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import Account, AtMost, group

if TYPE_CHECKING:
    from openbell.events.records import Event
    from openbell.events.subscriptions import EventOptions, Start

_STARTS: "Final[dict[str, Start]]" = {"now": "LIVE", "primed": "PRIMED", "beginning": "BEGINNING"}

app = group("Follow the events of an account.")
Types = Annotated[
    list[str] | None, typer.Option("--type", help="Only events of this type, e.g. BROKER_TRADE; may be repeated.")
]
Symbols = Annotated[
    list[str] | None,
    typer.Option("--symbol", help="Only events of this symbol, and those of no symbol; may be repeated."),
]
OverSse = Annotated[bool, typer.Option("--sse", help="Use HTTP although gRPC is installed.")]


@app.command()
@connected(account=Account, stream=True)
def tail(
    call: Call,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="now|primed|beginning|TOKEN",
            help="New events; the current state and then new events; the oldest event in the log; or after a token.",
        ),
    ] = "now",
    types: Types = None,
    symbols: Symbols = None,
    everywhere: Annotated[bool, typer.Option("--organization", help="All accounts of the organization.")] = False,
    over_sse: OverSse = False,
) -> None:
    """Print events as they happen until Ctrl-C. Reconnects by itself and continues where it was."""
    options: EventOptions = {
        "organization": everywhere,
        "types": [each.upper() for each in types or ()],
        "symbols": symbols or (),
        "start": _STARTS.get(begin, "LIVE"),
        "transport": "sse" if over_sse else None,
    }
    token = None if begin in _STARTS else begin
    try:
        events = call.client.events(token, **options)
        if not call.as_json:
            sys.stderr.write("Waiting for events; press Ctrl-C to stop.\n")
        for event in _shown(call, events):
            token = event.resume_token or token
    except KeyboardInterrupt:
        if token:
            sys.stderr.write(f"To continue from here: openbell events tail --from {token}\n")


@app.command(name="list")
@connected(account=Account)
def list_events(
    call: Call,
    after_seq: Annotated[int | None, typer.Option("--after", min=0, help="Only after this event number.")] = None,
    token: Annotated[str | None, typer.Option("--from", metavar="TOKEN", help="Only after this token.")] = None,
    types: Types = None,
    symbols: Symbols = None,
    limit: AtMost = None,
) -> None:
    """List past events, the oldest in the log first."""
    past = call.client.event_history(
        after_seq=after_seq, resume_token=token, types=[each.upper() for each in types or ()], symbols=symbols or ()
    )
    for _ in _shown(call, islice(past, limit)):
        pass


def _shown(call: Call, events: "Iterable[Event]") -> "Iterable[Event]":
    """The events, each after it was printed."""
    from openbell.cli.tables import show_event

    for event in events:
        if call.as_json:
            typer.echo(event.to_json())
        else:
            show_event(event)
        yield event
