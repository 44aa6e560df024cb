"""The commands under `openbell keys`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, cast

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import group, moment_of
from openbell.cli.plain_text import printable, time_text

if TYPE_CHECKING:
    from datetime import datetime

    from openbell.access.accounts import Environment
    from openbell.access.api_keys import AgentBudget, ApiKey

app = group("The organization's API keys.")
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key's id, as `openbell keys list` shows it.")]

_with_token = connected(key=False, token=True)


_Symbols = Annotated[
    str | None, typer.Option("--symbols", help="The only symbols that it may trade: AAPL,MSFT.", show_default=False)
]
_OrderNotional = Annotated[
    str | None, typer.Option("--order-notional", help="The highest value of one order.", show_default=False)
]
_DayNotional = Annotated[
    str | None, typer.Option("--day-notional", help="The highest value of all orders of a day.", show_default=False)
]
_DayLoss = Annotated[
    str | None,
    typer.Option("--day-loss", help="The loss of a day after which an account is only reduced.", show_default=False),
]
_OrdersPerMinute = Annotated[
    int | None, typer.Option("--orders-per-minute", help="Orders and replacements.", show_default=False)
]
_Permissions = Annotated[
    list[str] | None, typer.Argument(metavar="[PERMISSION...]", help="For example intent:read.", show_default=False)
]
_ExpiresAt = Annotated[
    str | None, typer.Option("--expires-at", "--expires", help="For example 2027-03-06T21:00:00Z.", show_default=False)
]
_Accounts = Annotated[
    str | None, typer.Option("--accounts", help="The only accounts that it may use: ID,ID.", show_default=False)
]
_OpenOrders = Annotated[int | None, typer.Option("--open-orders", help="Per account.", show_default="10")]


@app.command()
@_with_token
def create(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    permissions: _Permissions = None,
    live: Annotated[bool, typer.Option("--live", help="For live accounts; without it, for paper accounts.")] = False,
    expires_at: _ExpiresAt = None,
    own_orders_only: Annotated[
        bool, typer.Option("--own-orders-only", help="Let it cancel and replace only orders that it created.")
    ] = False,
    accounts: _Accounts = None,
    agent: Annotated[
        bool, typer.Option("--agent", help="For an AI agent: fixed permissions, and the limits below as rules.")
    ] = False,
    symbols: _Symbols = None,
    order_notional: _OrderNotional = None,
    day_notional: _DayNotional = None,
    day_loss: _DayLoss = None,
    currency: Annotated[str, typer.Option("--currency", help="Of the amounts.")] = "USD",
    orders_per_minute: _OrdersPerMinute = None,
    open_orders: _OpenOrders = None,
    allow_short: Annotated[bool, typer.Option("--allow-short", help="Let the agent sell what is not held.")] = False,
) -> None:
    """Create a key and print it. It cannot be printed again."""
    until = moment_of("--expires-at", expires_at)
    environment: Environment = "live" if live else "paper"
    account_ids = _split(accounts)
    limits = {
        "symbols": _split(symbols),
        "order_notional": order_notional,
        "day_notional": day_notional,
        "day_loss": day_loss,
        "orders_per_minute": orders_per_minute,
    }
    if agent:
        budget: dict[str, object] = {
            **limits,
            "account_ids": account_ids,
            "currency": currency,
            "no_short": not allow_short,
        }
        if open_orders is not None:
            budget["open_orders"] = open_orders
        _show_made(call, _create_for_agent(call, name, environment, until, budget))
        return
    if any(value is not None for value in limits.values()):
        raise ValueError("Limits are for keys of agents. Add --agent, or leave them out.")
    made = call.client.api_keys.create(
        name,
        environment=environment,
        permissions=permissions or [],
        expires_at=until,
        own_orders_only=own_orders_only,
        account_ids=account_ids,
    )
    _show_made(call, made)


def _split(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",")


def _show_made(call: Call, made: "ApiKey") -> None:
    _show(call, [made])
    if made.api_key is not None and not call.as_json:
        typer.echo(f"{made.api_key}  (shown this once)")


def _create_for_agent(
    call: Call, name: str, environment: "Environment", until: "datetime | None", budget: dict[str, object]
) -> "ApiKey":
    options = {"account_ids": "--accounts"}
    missing = [options.get(field, f"--{field.replace('_', '-')}") for field, value in budget.items() if value is None]
    if until is None:
        missing.append("--expires-at")
    if missing or until is None:
        raise ValueError(f"A key of an agent needs {', '.join(missing)}.")
    agent = cast("AgentBudget", budget)
    return call.client.api_keys.create_for_agent(name, expires_at=until, environment=environment, **agent)


@app.command("worst-case")
@_with_token
def worst_case(call: Call, key: KeyArgument) -> None:
    """Print what a key can still do at worst, by the rules in force of every scope."""
    call.show(call.client.api_keys.worst_case(key), lambda case: typer.echo("\n".join(map(printable, case.sentences))))


@app.command("list")
@_with_token
def list_all(call: Call) -> None:
    """List the keys, the newest first."""
    _show(call, call.client.api_keys.list())


@app.command()
@_with_token
def show(call: Call, key: KeyArgument) -> None:
    """Show one key."""
    _show(call, [call.client.api_keys.show(key)])


@app.command()
@_with_token
def disable(call: Call, key: KeyArgument) -> None:
    """Disable a key until it is enabled. It takes effect on all servers within a second."""
    _show(call, [call.client.api_keys.change(key, disabled=True)])


@app.command()
@_with_token
def enable(call: Call, key: KeyArgument) -> None:
    """Enable a key again."""
    _show(call, [call.client.api_keys.change(key, disabled=False)])


@app.command()
@connected(key=False, token=True, json=False)
def revoke(call: Call, key: KeyArgument) -> None:
    """Revoke a key permanently. Its queued commands that were not sent are skipped."""
    call.client.api_keys.revoke(key)
    typer.echo("revoked")


@app.command()
@connected()
def whose(call: Call) -> None:
    """Show the organization of the API key that this command uses."""
    found = call.client.api_keys.validate()
    text = f"key {found.id} of organization {found.organization_id}, {found.environment}"
    call.show_line(found, text + (", disabled" if found.disabled else ""))


def _show(call: Call, keys: "Iterable[ApiKey]") -> None:
    call.show_table(
        keys,
        ("key", "public id", "name", "environment", "permissions", "last used", "standing"),
        lambda key: (
            key.id,
            key.key_id,
            key.name,
            key.environment,
            " ".join(key.permissions),
            time_text(key.last_used_at),
            _state(key),
        ),
    )


def _state(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return "revoked"
    until = "" if key.expires_at is None else f"until {key.expires_at:%Y-%m-%d %H:%M}Z"
    facts = ("disabled" if key.disabled else until, "own orders only" if key.own_orders_only else "", _accounts(key))
    return ", ".join(fact for fact in facts if fact)


def _accounts(key: "ApiKey") -> str:
    return "" if key.account_ids is None else f"{len(key.account_ids)} account{'s' * (len(key.account_ids) != 1)}"
