"""The options that several commands take."""

from contextlib import suppress
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer

from openbell.intents.orders import ListOrder


def intent_id(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        message = f"{text} is not an intent id. An id looks like 0192f0c1-7a3b-7c3d-9f00-5b6d2a1c4e8f."
        raise typer.BadParameter(message) from None


Url = Annotated[
    str | None, typer.Option("--url", envvar="OPENBELL_URL", help="The platform's address.", show_default=False)
]
Key = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar="OPENBELL_API_KEY",
        help="The API key. In the environment it stays out of the process list.",
        show_default=False,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--access-token",
        envvar="OPENBELL_ACCESS_TOKEN",
        help="A user's access token, sent instead of the API key. In the environment it stays out of the process list.",
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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line instead of a table.")]
IdempotencyKey = Annotated[
    str | None, typer.Option("--key", help="Idempotency key; the same command with the same key is recorded once.")
]
Deadline = Annotated[
    str | None,
    typer.Option(
        "--deadline",
        help="Do not send to the broker later than this, such as 2026-03-06T21:00:00Z.",
        show_default=False,
    ),
]
Reference = Annotated[str | None, typer.Option("--reference", help="Your own id, stored with the intent.")]
AllowDuplicate = Annotated[
    bool, typer.Option("--allow-duplicate", help="Skip the duplicate-order check, if its rules permit it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only evaluate the controls; record nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation on a live account.")]
IntentId = Annotated[str, typer.Argument(metavar="ID", help="The intent's id.", parser=intent_id)]
Symbol = Annotated[str, typer.Argument(metavar="SYMBOL", help="For example AAPL.")]
OfSymbol = Annotated[str | None, typer.Option("--symbol", help="One symbol on the account.")]
OfKey = Annotated[str | None, typer.Option("--api-key-id", help="One API key, by its id.")]
OfOrganization = Annotated[bool, typer.Option("--organization", help="The whole organization.")]
OnlySymbol = Annotated[str | None, typer.Option("--symbol", help="Only this symbol.")]
AllAccounts = Annotated[bool, typer.Option("--all-accounts", help="Of every account of the organization.")]
OldestFirst = Annotated[bool, typer.Option("--oldest-first", help="Begin with the oldest instead of the newest.")]
OfIntent = Annotated[str | None, typer.Option("--intent", help="Only this intent.", parser=intent_id)]
AtMost = Annotated[int | None, typer.Option("--limit", min=1, help="The largest number of rows.")]


def group(text: str) -> typer.Typer:
    """A group of commands with this help text."""
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)


def list_order(*, oldest_first: bool) -> ListOrder:
    return "asc" if oldest_first else "desc"


def moment_of(name: str, text: str | None) -> datetime | None:
    """The time in the option `name`; raises ValueError if it has no offset."""
    if text is None:
        return None
    moment = None
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{name} must be a time with an offset, such as 2026-03-06T21:00:00Z.")
    return moment
