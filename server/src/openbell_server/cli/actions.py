"""Commands about actions with an unknown outcome."""

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from openbell_server.cli.operators import AsJson, RowLimit, operate, plain_name, short_age, show_list, show_one
from openbell_server.domain.errors import OperatorError

IN_DOUBT = ("action_id", "action_type", "broker", "status", "for", "writes", "look_ups", "flagged", "account_id")
SETTLED = ("action_id", "action_type", "status", "order", "order_closed_as", "broker_order_ids", "settled_now")


class EndsAs(StrEnum):
    """The outcomes that an operator can record for an action."""

    ACKED = "acked"
    REFUSED = "refused"
    FAILED = "failed"
    ABANDONED = "abandoned"


app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)


@app.command("list")
def show_all(
    unknown: Annotated[bool, typer.Option("--unknown", help="Only those that are UNKNOWN.")] = False,
    limit: RowLimit = 50,
    as_json: AsJson = False,
) -> None:
    """List actions past their door without an outcome, the longest unknown first."""
    from openbell_server.domain.orders.action_lifecycle import PAST_DOOR, ActionState

    states = [ActionState.UNKNOWN] if unknown else sorted(PAST_DOOR)
    rows = operate(lambda store: store.actions.list_in_doubt(states, limit))
    if as_json:
        show_list("actions", rows, IN_DOUBT, as_json=True)
        return
    shown = [row | {"for": short_age(row["age_seconds"]), "flagged": row["flagged_at"] is not None} for row in rows]
    show_list("actions", shown, IN_DOUBT, as_json=False)
    if len(rows) == limit:
        typer.echo(f"\nThese are the oldest {limit}: there may be more, see --limit.")


@app.command()
def settle(
    action_id: Annotated[str, typer.Argument(metavar="ACTION", help="The action, as `actions list` shows it.")],
    ends_as: Annotated[EndsAs, typer.Option("--as", help="The outcome according to the broker's records.")],
    because: Annotated[str, typer.Option(help="What you saw, and where, for the record.")],
    broker_order_id: Annotated[str, typer.Option(help="The order's id at its broker; with --as acked.")] = "",
    acting_as: Annotated[str, typer.Option("--by", help="Who acts. Default: the system user.")] = "",
    as_json: AsJson = False,
) -> None:
    """Settle an action that is UNKNOWN. Check the broker's records first: this command does not contact the broker."""
    from openbell_server.application.execution.settle_manually import Verdict
    from openbell_server.domain.identifiers import ActionId
    from openbell_server.domain.orders.action_lifecycle import ActionState

    plain_name(because, "--because")
    if broker_order_id:
        plain_name(broker_order_id, "--broker-order-id")
    try:
        action = ActionId(UUID(action_id))
    except ValueError as error:
        raise OperatorError("The id of an action is a UUID: see `openbell-server actions list`.") from error
    verdict = Verdict(ActionState(ends_as.upper()), because, broker_order_id or None)
    settled = operate(lambda store: store.actions.settle(action, verdict), acting_as)
    show_one(settled, SETTLED, as_json=as_json)
