"""The commands under `openbell webhooks`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import Json, Key, Token, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.webhook_requests import Webhook, WebhookLane

app = typer.Typer(help="Have events sent to an address of yours.", no_args_is_help=True, rich_markup_mode=None)
WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's id.")]
Accounts = Annotated[
    list[str] | None,
    typer.Option("--account", help="Only this account, and others so named; else all.", show_default=False),
]
OneAccount = Annotated[str | None, typer.Option("--account", help="Only this account.", show_default=False)]


@app.command()
def create(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Where to, such as https://example.com/openbell.")],
    types: Annotated[list[str], typer.Argument(metavar="TYPE...", help="Such as broker_trade broker_order.")],
    description: Annotated[str | None, typer.Option("--description", help="For people.", show_default=False)] = None,
    accounts: Accounts = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a webhook and tell its secret, once."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        made = client.webhooks.create(address, types, description=description, account_ids=accounts)
    _show([made], as_json=as_json)


@app.command("list")
def list_all(url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False) -> None:
    """List every webhook."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        found = client.webhooks.list()
    _show(found, as_json=as_json)


@app.command()
def show(
    webhook: WebhookArgument, url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False
) -> None:
    """Show a webhook, and how its lanes stand."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        found = client.webhooks.show(webhook)
    _show([found], as_json=as_json)


@app.command()
def pause(
    webhook: WebhookArgument, url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False
) -> None:
    """Send nothing until it is resumed."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        paused = client.webhooks.change(webhook, status="PAUSED")
    _show([paused], as_json=as_json)


@app.command()
def rotate(
    webhook: WebhookArgument, url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False
) -> None:
    """Replace its secret and tell the new one, once; for 24 hours both sign."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        rotated = client.webhooks.rotate_secret(webhook)
    _show([rotated], as_json=as_json)


@app.command("test")
def send_test(
    webhook: WebhookArgument, url: Url = None, api_key: Key = None, token: Token = None, as_json: Json = False
) -> None:
    """Send a test message now, and tell what the target said; ends with 1 where it did not take it."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        tried = client.webhooks.test(webhook)
    if as_json:
        typer.echo(tried.to_json())
    else:
        said = (
            f"{tried.status} after {tried.duration_millis} ms" if tried.is_taken else f"{tried.error}: {tried.message}"
        )
        typer.echo(printable(f"{'taken' if tried.is_taken else 'not taken'}  {said}"))
    if not tried.is_taken:
        raise typer.Exit(1)


@app.command()
def lanes(
    webhook: WebhookArgument,
    parked: Annotated[bool, typer.Option("--parked", help="Only those that are parked.")] = False,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show how far each account has come."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        found = list(client.webhooks.lanes(webhook, parked=True if parked else None))
    if as_json:
        for lane in found:
            typer.echo(lane.to_json())
    else:
        _show_lanes(found)


@app.command()
def replay(
    webhook: WebhookArgument,
    after: Annotated[int, typer.Option("--after", min=0, help="Go on after the event of this number.")],
    account: OneAccount = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
) -> None:
    """Send again what came after a number, or skip up to it."""
    with told_plainly(as_json=False), client_for(url, api_key, None, token=token) as client:
        typer.echo(f"accounts that go on after {after}: {client.webhooks.replay(webhook, after, account_id=account)}")


@app.command()
def resume(
    webhook: WebhookArgument,
    account: OneAccount = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
) -> None:
    """Go on with a paused webhook, and try again at once what failed or is parked."""
    with told_plainly(as_json=False), client_for(url, api_key, None, token=token) as client:
        client.webhooks.change(webhook, status="ACTIVE")
        typer.echo(f"accounts that are tried again: {client.webhooks.resume(webhook, account_id=account)}")


@app.command()
def delete(webhook: WebhookArgument, url: Url = None, api_key: Key = None, token: Token = None) -> None:
    """Remove a webhook for good."""
    with told_plainly(as_json=False), client_for(url, api_key, None, token=token) as client:
        client.webhooks.delete(webhook)
    typer.echo("deleted")


def _show(webhooks: "Sequence[Webhook]", *, as_json: bool) -> None:
    for webhook in webhooks:
        if as_json:
            typer.echo(webhook.to_json())
            continue
        typer.echo(printable(f"{webhook.id}  {webhook.status}  {webhook.url}  {', '.join(webhook.types)}"))
        if webhook.lanes is not None:
            of = webhook.lanes
            typer.echo(f"  {of.accounts} accounts, {of.behind} behind, {of.failing} failing, {of.parked} parked")
        if webhook.secret is not None:
            typer.echo(f"  secret {webhook.secret}, shown this once")


def _show_lanes(found: "Sequence[WebhookLane]") -> None:
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.tables import console

    table = Table("account", "position", "newest", "failures", "last", "standing", box=None, header_style="bold")
    for lane in found:
        standing = "parked" if lane.parked_at else "failing" if lane.failing_since else ""
        last = lane.last_error or lane.last_status or ""
        cells = (lane.account_id, lane.position, lane.newest_seq, lane.failures, last, standing)
        table.add_row(*(Text(printable(str(cell))) for cell in cells))
    console().print(table)
