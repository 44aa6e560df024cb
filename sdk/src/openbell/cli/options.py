"""The options that several commands take, and the client they describe."""

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
Stream = Annotated[
    str | None,
    typer.Option("--stream", envvar="OPENBELL_STREAM", help="The event stream, host:port.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object per line instead of a table.")]
IdempotencyKey = Annotated[
    str | None,
    typer.Option("--key", help="Idempotency key; the same command with the same key is recorded once."),
]
Reference = Annotated[str | None, typer.Option("--reference", help="Your own id, kept with the intent.")]


def client_for(
    url: str | None, key: str | None, account: str | None, stream: str | None = None, token: str | None = None
) -> "Client":
    """The client these options describe; a token speaks instead of the key."""
    from openbell.client import Client

    return Client(api_key=key, base_url=url, stream_address=stream, account_id=account, access_token=token)
