"""The command `openbell brokers`."""

from typing import TYPE_CHECKING

from openbell.cli.calls import Call, connected

if TYPE_CHECKING:
    from openbell.models import Broker


@connected()
def show_brokers(call: Call) -> None:
    """List the brokers that accounts can use, and what each supports; --json shows all of it."""
    call.show_table(
        call.client.brokers(),
        ("broker", "environments", "order kinds", "decimals", "replace", "ids", "look-up", "credential"),
        lambda broker: (
            broker.name + (f" {broker.profile}" if broker.profile else ""),
            ", ".join(broker.environments),
            ", ".join(broker.order_types),
            broker.quantity_decimals,
            broker.replace,
            ", ".join(f"{command} {each.id_class}" for command, each in broker.commands.items()),
            broker.look_up,
            _credential(broker),
        ),
    )


def _credential(broker: "Broker") -> str:
    if broker.credentials is None:
        return "none"
    fields = ", ".join(field.name for field in broker.credentials.fields)
    return fields if broker.credentials.required else f"{fields} (optional)"
