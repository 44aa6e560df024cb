"""Commands that call the platform: their common options, their client and their output."""

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, get_args

import typer
from typer.models import ArgumentInfo

from openbell.cli.login import current_token
from openbell.cli.options import Json, Key, OfKey, OfOrganization, OfSymbol, Stream, Token, Url
from openbell.cli.outcomes import errors_as_messages
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.client import Client
    from openbell.controls.rule_requests import RuleScope
    from openbell.models import Record

Parameters = ParamSpec("Parameters")
Shown = TypeVar("Shown", bound="Record")


class Call:
    """One run of a command."""

    def __init__(
        self,
        stack: ExitStack,
        url: str | None = None,
        api_key: str | None = None,
        account: str | None = None,
        stream: str | None = None,
        token: str | None = None,
        as_json: bool = False,
        **scope: Any,  # noqa: ANN401 - symbol, api_key_id and organization
    ) -> None:
        self.account, self.as_json, self._scope = account, as_json, scope
        self._stack, self._key, self._token = stack, api_key, token
        self._options = (url, api_key, account, stream, token)

    @cached_property
    def client(self) -> "Client":
        """Made on first use; closed when the command ends."""
        return self._stack.enter_context(client_for(*self._options))

    @property
    def scope(self) -> "RuleScope":
        """The scope of a rule; OPENBELL_ACCOUNT is used only if no wider scope is named."""
        is_wider = self._scope["organization"] or self._scope["api_key_id"]
        return cast("RuleScope", self._scope if is_wider else {"account_id": self.account, **self._scope})

    def confirm_live(self, what: str, *, yes: bool) -> None:
        """Ask for confirmation before a change with real money; without a terminal, require --yes."""
        if yes:
            return
        # The prefix of a key shows its environment. A token has none, so the account is read.
        if self._token:
            is_live = self.client.accounts.show().environment == "live"
        else:
            is_live = (self._key or "").startswith("ob_live_")
        if not is_live:
            return
        if not sys.stdin.isatty():
            raise ValueError(f"This is live: {what}. Add --yes to confirm.")
        typer.confirm(f"This is live: {what}. Continue?", abort=True, err=True)

    def show_table(
        self, records: Iterable[Shown], names: Sequence[str], row: Callable[[Shown], Iterable[object]]
    ) -> None:
        """A table, or with --json one JSON object per line."""
        if self.as_json:
            for record in records:
                typer.echo(record.to_json())
            return
        from openbell.cli.tables import show_rows

        show_rows(names, ([str(text) for text in row(record)] for record in records))

    def show(self, record: Shown, as_text: Callable[[Shown], None]) -> None:
        """Print with `as_text`, or with --json one JSON object."""
        if self.as_json:
            typer.echo(record.to_json())
        else:
            as_text(record)

    def show_line(self, record: "Record", text: str) -> None:
        """One line of text, or with --json one JSON object."""
        typer.echo(record.to_json() if self.as_json else printable(text))


def connected(
    *,
    account: object = None,
    key: bool = True,
    token: bool = False,
    stream: bool = False,
    json: bool = True,
    scope: bool = False,
) -> Callable[[Callable[Concatenate[Call, Parameters], None]], Callable[..., None]]:
    """Add the options for the connection to a command, and pass them as a Call.

    `account` is the type of an option or argument, for a command that is about one account.
    """
    kinds = {
        "symbol": OfSymbol if scope else None,
        "api_key_id": OfKey if scope else None,
        "organization": OfOrganization if scope else None,
        "account": account,
        "stream": Stream if stream else None,
        "url": Url,
        "api_key": Key if key else None,
        "token": Token if token else None,
        "as_json": Json if json else None,
    }
    added = [_parameter(name, kind) for name, kind in kinds.items() if kind is not None]

    def decorate(command: Callable[Concatenate[Call, Parameters], None]) -> Callable[..., None]:
        inner: Callable[..., None] = command
        own = [each.replace(kind=each.KEYWORD_ONLY) for each in inspect.signature(command).parameters.values()][1:]

        @wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401 - typer passes what it parsed
            options = {each.name: given.pop(each.name) for each in added}
            with errors_as_messages(as_json=options.get("as_json", False)), ExitStack() as stack:
                inner(Call(stack, **options), **given)

        # The account is the first argument of a command, and other options come last in its help.
        parameters = sorted([*own, *added], key=lambda each: (each in added) - 2 * _is_argument(each, "account"))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def _parameter(name: str, kind: Any) -> inspect.Parameter:  # noqa: ANN401 - an Annotated type
    default = {str: inspect.Parameter.empty, bool: False}.get(get_args(kind)[0])
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _is_argument(parameter: inspect.Parameter, name: str) -> bool:
    return parameter.name == name and isinstance(get_args(parameter.annotation)[1], ArgumentInfo)


def client_for(
    url: str | None, key: str | None, account: str | None, stream: str | None = None, token: str | None = None
) -> "Client":
    from openbell.client import Client

    valid = current_token(token) if token else None
    return Client(api_key=key, url=url, stream_address=stream, account_id=account, access_token=valid)
