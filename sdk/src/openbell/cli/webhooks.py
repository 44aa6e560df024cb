"""The commands under `openbell webhooks`."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import AtMost, group
from openbell.cli.plain_text import printable, time_text

if TYPE_CHECKING:
    from openbell.access.webhooks import Webhook

app = group("Send events to an address of yours.")
WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's id.")]
Accounts = Annotated[
    list[str] | None,
    typer.Option("--account", help="Only this account; may be repeated. Default: all.", show_default=False),
]
OneAccount = Annotated[str | None, typer.Option("--account", help="Only this account.", show_default=False)]

_with_token = connected(token=True)
_without_output = connected(token=True, json=False)


@app.command()
@_with_token
def create(
    call: Call,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="For example https://example.com/openbell.")],
    types: Annotated[list[str], typer.Argument(metavar="TYPE...", help="For example BROKER_TRADE BROKER_ORDER.")],
    description: Annotated[
        str | None, typer.Option("--description", help="A text for people.", show_default=False)
    ] = None,
    accounts: Accounts = None,
) -> None:
    """Create a webhook and print its secret. It cannot be printed again."""
    call.show(
        call.client.webhooks.create(
            address, [each.upper() for each in types], description=description, account_ids=accounts
        ),
        _show,
    )


@app.command("list")
@_with_token
def list_all(call: Call) -> None:
    """List every webhook."""
    for webhook in call.client.webhooks.list():
        call.show(webhook, _show)


@app.command()
@_with_token
def show(call: Call, webhook: WebhookArgument) -> None:
    """Show a webhook, with the number of lanes that are behind, failing or parked."""
    call.show(call.client.webhooks.show(webhook), _show)


@app.command()
@_with_token
def pause(call: Call, webhook: WebhookArgument) -> None:
    """Send nothing until the webhook is resumed."""
    call.show(call.client.webhooks.change(webhook, status="PAUSED"), _show)


@app.command()
@_with_token
def rotate(call: Call, webhook: WebhookArgument) -> None:
    """Replace the secret and print the new one, once. For 24 hours, deliveries are signed with both."""
    call.show(call.client.webhooks.rotate_secret(webhook), _show)


@app.command("test")
@_with_token
def send_test(call: Call, webhook: WebhookArgument) -> None:
    """Send a test message now, and print the target's answer. Exits with 1 if the target does not accept it."""
    tried = call.client.webhooks.test(webhook)
    answer = (
        f"{tried.status} after {tried.duration_millis} ms" if tried.delivered else f"{tried.error}: {tried.message}"
    )
    call.show_line(tried, f"{'taken' if tried.delivered else 'not taken'}  {answer}")
    if not tried.delivered:
        raise typer.Exit(1)


@app.command()
@_with_token
def lanes(
    call: Call,
    webhook: WebhookArgument,
    parked: Annotated[bool, typer.Option("--parked", help="Only lanes that are parked.")] = False,
) -> None:
    """Show the delivery progress of each account."""
    call.show_table(
        call.client.webhooks.lanes(webhook, parked=True if parked else None),
        ("account", "position", "newest", "failures", "last", "standing"),
        lambda lane: (
            lane.account_id,
            lane.position,
            lane.newest_seq,
            lane.failures,
            lane.last_error or lane.last_status or "",
            "parked" if lane.parked_at else "failing" if lane.failing_since else "",
        ),
    )


@app.command()
@_without_output
def replay(
    call: Call,
    webhook: WebhookArgument,
    after: Annotated[int, typer.Option("--after", min=0, help="Continue after this event number.")],
    account: OneAccount = None,
) -> None:
    """Continue after an event number: send earlier events again, or skip events."""
    count = call.client.webhooks.replay(webhook, after, account_id=account)
    typer.echo(f"accounts that continue after {after}: {count}")


@app.command()
@_with_token
def attempts(call: Call, webhook: WebhookArgument, limit: AtMost = None) -> None:
    """List recent deliveries and their results, the newest first."""
    call.show_table(
        islice(call.client.webhooks.attempts(webhook), limit),
        ("when", "message", "took", "result", "next"),
        lambda each: (
            time_text(each.attempted_at),
            each.message_id,
            f"{each.duration_millis} ms",
            each.message or each.status,
            time_text(each.next_attempt_at),
        ),
    )


@app.command()
@_with_token
def resume(call: Call, webhook: WebhookArgument) -> None:
    """Resume a paused webhook, and retry failing and parked lanes now."""
    call.show(call.client.webhooks.resume(webhook), _show)


@app.command()
@_without_output
def delete(call: Call, webhook: WebhookArgument) -> None:
    """Delete a webhook permanently."""
    call.client.webhooks.delete(webhook)
    typer.echo("deleted")


def _show(webhook: "Webhook") -> None:
    typer.echo(printable(f"{webhook.id}  {webhook.status}  {webhook.url}  {', '.join(webhook.types)}"))
    if webhook.lanes is not None:
        of = webhook.lanes
        typer.echo(f"  {of.accounts} accounts, {of.behind} behind, {of.failing} failing, {of.parked} parked")
    if webhook.secret is not None:
        typer.echo(f"  secret {webhook.secret}, shown this once")
