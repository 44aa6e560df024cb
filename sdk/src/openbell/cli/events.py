"""The commands under `openbell events`."""

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from openbell.cli.options import Account, Json, Key, Stream, Url, client_for
from openbell.cli.outcomes import told_plainly

if TYPE_CHECKING:
    from openbell.subscriptions import EventOptions, Start

_STARTS: "Final[dict[str, Start]]" = {"now": "live", "primed": "primed", "beginning": "beginning"}

app = typer.Typer(help="Follow what happens on an account.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def tail(
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="now|primed|beginning|TOKEN",
            help="From now on; with what stands now first; from the oldest event kept; or after the event of a token.",
        ),
    ] = "now",
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only events of this type, e.g. broker_trade; may be repeated.")
    ] = None,
    symbols: Annotated[
        list[str] | None, typer.Option("--symbol", help="Only events about this symbol, or none; may be repeated.")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--organization", help="Of every account of the organization.")] = False,
    over_sse: Annotated[bool, typer.Option("--sse", help="Over HTTP, also where gRPC is installed.")] = False,
    account: Account = None,
    stream: Stream = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Print events as they happen until Ctrl-C; connects again by itself and goes on where it was."""
    options: EventOptions = {
        "organization": everywhere,
        "types": types or (),
        "symbols": symbols or (),
        "start": _STARTS.get(begin, "live"),
        "transport": "sse" if over_sse else None,
    }
    token = None if begin in _STARTS else begin
    with told_plainly(as_json=as_json), client_for(url, api_key, account, stream) as client:
        from openbell.cli.tables import show_event

        try:
            events = client.events(token, **options)
            if not as_json:
                sys.stderr.write("Waiting for events; Ctrl-C ends it.\n")
            for event in events:
                if as_json:
                    typer.echo(event.to_json())
                else:
                    show_event(event)
                token = event.resume_token or token
        except KeyboardInterrupt:
            if token:
                sys.stderr.write(f"Go on from here with: openbell events tail --from {token}\n")


@app.command(name="list")
def list_events(
    after_seq: Annotated[
        int | None, typer.Option("--after", min=0, help="Only after the event of this number.")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--from", metavar="TOKEN", help="Only after the event of a token.")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Only events of this type, e.g. broker_trade; may be repeated.")
    ] = None,
    symbols: Annotated[
        list[str] | None, typer.Option("--symbol", help="Only events about this symbol, or none; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many.")] = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """List past events, the oldest that is kept first."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account) as client:
        from openbell.cli.tables import show_event

        past = client.event_history(after_seq=after_seq, resume_token=token, types=types or (), symbols=symbols or ())
        for event in islice(past, limit):
            if as_json:
                typer.echo(event.to_json())
            else:
                show_event(event)
