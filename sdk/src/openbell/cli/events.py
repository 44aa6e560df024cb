"""The commands under `openbell events`."""

import sys
from typing import Annotated

import typer

from openbell.cli.options import Account, Json, Key, Stream, Url, client_for
from openbell.cli.outcomes import told_plainly

app = typer.Typer(help="Follow what happens on an account.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def tail(
    resume_token: Annotated[
        str | None, typer.Option("--from", metavar="TOKEN", help="Go on after this event; without it, from now on.")
    ] = None,
    account: Account = None,
    stream: Stream = None,
    url: Url = None,
    api_key: Key = None,
    as_json: Json = False,
) -> None:
    """Print events as they happen until Ctrl-C; connects again by itself and goes on where it was."""
    token = resume_token
    with told_plainly(as_json=as_json), client_for(url, api_key, account, stream) as client:
        from openbell.cli.tables import show_event

        try:
            events = client.events(resume_token)
            if not as_json:
                sys.stderr.write("Waiting for events; Ctrl-C ends it.\n")
            for event in events:
                if as_json:
                    typer.echo(event.to_json())
                else:
                    show_event(event)
                token = event.resume_token
        except KeyboardInterrupt:
            if token:
                sys.stderr.write(f"Go on from here with: openbell events tail --from {token}\n")
