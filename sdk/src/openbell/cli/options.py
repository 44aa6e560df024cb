"""The options that several commands take, and the client they describe."""

import sys
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from openbell.client import Client

Url = Annotated[
    str | None, typer.Option("--url", envvar="OPENBELL_URL", help="The platform's address.", show_default=False)
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="OPENBELL_API_KEY",
        help="The API key; the environment keeps it out of the process list.",
        show_default=False,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--access-token",
        envvar="OPENBELL_ACCESS_TOKEN",
        help="A user's access token, in place of the API key; the environment keeps it out of the process list.",
        show_default=False,
    ),
]
Account = Annotated[
    str | None,
    typer.Option("--account", envvar="OPENBELL_ACCOUNT", help="The trading account's id.", show_default=False),
]
AccountArgument = Annotated[
    str | None,
    typer.Argument(metavar="ACCOUNT", envvar="OPENBELL_ACCOUNT", help="The trading account's id.", show_default=False),
]
Stream = Annotated[
    str | None,
    typer.Option("--stream", envvar="OPENBELL_STREAM", help="The event stream, host:port.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line instead of a table.")]
IdempotencyKey = Annotated[
    str | None,
    typer.Option("--key", help="Idempotency key; the same command with the same key is recorded once."),
]
Deadline = Annotated[
    str | None,
    typer.Option(
        "--deadline", help="Not sent to the broker later than this, such as 2026-03-06T21:00:00Z.", show_default=False
    ),
]
Reference = Annotated[str | None, typer.Option("--reference", help="Your own id, kept with the intent.")]

AllowDuplicate = Annotated[bool, typer.Option("--allow-duplicate", help="An equal order just before is no mistake.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what the controls would say; record nothing.")]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before what is live.")]


def confirm_live(client: "Client", what: str, *, yes: bool, key: str | None, token: str | None = None) -> None:
    """Ask whoever sits there before something is done with real money; where nobody does, --yes must have said so."""
    if yes:
        return
    # A key says what it is for. A token does not, but the account does.
    is_live = client.accounts.show().environment == "live" if token else (key or "").startswith("ob_live_")
    if not is_live:
        return
    if not sys.stdin.isatty():
        raise ValueError(f"This is live: {what}. Say --yes if that is what you want.")
    typer.confirm(f"This is live: {what}. Go on?", abort=True, err=True)


def moment_of(name: str, text: str | None) -> datetime | None:
    """The moment that an option names, if it names one."""
    if text is None:
        return None
    moment = None
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{name} must be a time with an offset, such as 2026-03-06T21:00:00Z.")
    return moment


def client_for(
    url: str | None, key: str | None, account: str | None, stream: str | None = None, token: str | None = None
) -> "Client":
    """The client these options describe; a token speaks instead of the key."""
    from openbell.client import Client

    return Client(api_key=key, base_url=url, stream_address=stream, account_id=account, access_token=token)
