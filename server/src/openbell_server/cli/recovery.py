"""Commands for the time after a restore: show its progress, or start it manually."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore

T = TypeVar("T")
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show how many accounts still wait for a comparison with their broker, and orders that are not in our record."""
    from openbell_server.domain.identifiers import client_order_id

    standing = _act(lambda store: store.standing())
    forgotten = [
        {"account_id": str(account_id), "client_order_id": client_order_id(action_id)}
        for account_id, action_id in standing.forgotten_orders
    ]
    if as_json:
        report = {
            "restored_at": standing.held_at and standing.held_at.isoformat(),
            "accounts_held": standing.accounts_held,
            "forgotten_orders": forgotten,
        }
        typer.echo(json.dumps(report))
        return
    if standing.held_at is None:
        typer.echo("This database was never restored.")
        return
    typer.echo(f"A restore was detected at {standing.held_at:%Y-%m-%d %H:%M:%S} UTC.")
    typer.echo(f"Accounts held until they are compared with their broker: {standing.accounts_held}")
    typer.echo(f"Orders at brokers that are not in our record: {len(forgotten)}")
    for order in forgotten:
        typer.echo(f"  account {order['account_id']}  client order id {order['client_order_id']}")


@app.command()
def hold() -> None:
    """Hold every account until it is compared with its broker, after a restore that the database cannot detect.

    An example is a disk copy that was restored while PostgreSQL was stopped. Run it before executors start.
    """
    _act(lambda store: store.hold())
    typer.echo("Every account is held until an executor has compared it with its broker.")


def _act(act: Callable[["PostgresRecoveryStore"], Awaitable[T]]) -> T:
    from openbell_server.adapters.postgres.connection import open_pool
    from openbell_server.adapters.postgres.recovery import PostgresRecoveryStore
    from openbell_server.settings import Settings

    async def run() -> T:
        async with await open_pool(Settings().require("database_url"), connections_max=1) as pool:
            return await act(PostgresRecoveryStore(pool))

    return asyncio.run(run())
