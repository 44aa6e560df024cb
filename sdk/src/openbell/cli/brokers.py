"""The command `openbell brokers`."""

from typing import TYPE_CHECKING

import typer

from openbell.cli.options import Json, Key, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.models import Broker


def show_brokers(url: Url = None, api_key: Key = None, as_json: Json = False) -> None:
    """List the brokers that accounts can be at, and what each can do."""
    with told_plainly(as_json=as_json), client_for(url, api_key, None) as client:
        brokers = client.brokers()
    if as_json:
        for broker in brokers:
            typer.echo(broker.to_json())
    else:
        _show_table(brokers)


def _show_table(brokers: "tuple[Broker, ...]") -> None:
    from rich.table import Table
    from rich.text import Text

    from openbell.cli.tables import console

    # What else there is, --json tells.
    names = ("broker", "environments", "order kinds", "decimals", "replace", "ids", "look-up", "credential")
    table = Table(*names, box=None, header_style="bold")
    for broker in brokers:
        cells = (
            broker.name,
            ", ".join(broker.environments),
            ", ".join(broker.order_types),
            str(broker.quantity_decimals),
            broker.replace,
            ", ".join(f"{command} {each.id_class}" for command, each in broker.commands.items()),
            broker.look_up,
            _credential(broker),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console().print(table)


def _credential(broker: "Broker") -> str:
    if broker.credentials is None:
        return "none"
    fields = ", ".join(field.name for field in broker.credentials.fields)
    return fields if broker.credentials.required else f"{fields} (optional)"
