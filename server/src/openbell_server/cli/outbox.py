"""Commands about the queues: their state, their rows, and how to handle failed rows."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openbell_server.cli.operators import (
    ActingAs,
    AsJson,
    RowLimit,
    operate,
    plain_name,
    short_age,
    show_facts,
    show_list,
    show_one,
)
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.events.outbox import OutboxStatus, Queue
from openbell_server.domain.events.outbox_health import QueueVerdict

if TYPE_CHECKING:
    from openbell_server.transport.rest.health.queue_health_bodies import OutboxBody

_UNCOMPLETED = (OutboxStatus.PENDING, OutboxStatus.PROCESSING, OutboxStatus.FAILED)
QUEUES = ("queue", "verdict", "pending", "processing", "failed", "unacknowledged", "completed", "lag")
HANDLED = ("queue", "id", "type", "by", "reason", "requeued_as")
ROWS = ("queue", "id", "type", "status", "attempts", "age", "handled")
COLOURS = {QueueVerdict.SLOW: "bold yellow", QueueVerdict.FAILING: "bold red", QueueVerdict.STUCK: "bold red"}
QueueArgument = Annotated[Queue, typer.Argument(metavar="QUEUE", help="accounts, intents or users.")]
RowArgument = Annotated[int, typer.Argument(metavar="ID", min=1, help="The row, as `outbox list` shows it.")]
SomeRowArgument = Annotated[int | None, typer.Argument(metavar="ID", min=1, help="The row, as `outbox list` shows it.")]
AllFailed = Annotated[bool, typer.Option("--all-failed", help="All failed rows that are not acknowledged.")]
Reason = Annotated[str, typer.Option(help="Why, for the record.")]


class Status(StrEnum):
    """Which rows to list; completed rows are only counted."""

    FAILED = "failed"
    PENDING = "pending"
    PROCESSING = "processing"
    ALL = "all"


app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def summary(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the state of all queues, with advice. The exit code is 1 unless all of them are healthy."""
    if context.invoked_subcommand is not None:
        return
    import msgspec

    from openbell_server.transport.rest.health.queue_health_bodies import outboxes_body

    body = outboxes_body(operate(lambda store: store.outbox.standing()))
    if as_json:
        typer.echo(msgspec.json.encode(body))
    else:
        _print_queues(body.queues)
    if body.verdict is not QueueVerdict.HEALTHY:
        raise typer.Exit(1)


def _print_queues(queues: "Sequence[OutboxBody]") -> None:
    import msgspec
    from rich.text import Text

    from openbell.cli.tables import console

    rows = [msgspec.to_builtins(queue) | {"queue": queue.name, "lag": short_age(queue.lag_seconds)} for queue in queues]
    show_list("queues", rows, QUEUES, as_json=False)
    for queue in queues:
        if queue.verdict is not QueueVerdict.HEALTHY:
            head = Text(f"\n{queue.name} is {queue.verdict}. ", style=COLOURS[queue.verdict])
            console().print(head.append(queue.explanation, style="default not bold"))


@app.command("list")
def show_all(
    queue: Annotated[Queue | None, typer.Option(help="Only this queue.")] = None,
    status: Annotated[Status, typer.Option(help="Only in this status; completed rows are not listed.")] = Status.FAILED,
    limit: RowLimit = 50,
    as_json: AsJson = False,
) -> None:
    """List rows that are not completed, oldest first; by default only failed rows."""
    statuses = _UNCOMPLETED if status is Status.ALL else (OutboxStatus(status),)
    rows = operate(lambda store: store.outbox.list_rows((queue,) if queue else Queue, statuses, limit))
    if as_json:
        show_list("rows", rows, ROWS, as_json=True)
        return
    shown = [
        _named(row) | {"status": row["status"], "attempts": row["attempts"], "age": short_age(row["age_seconds"])}
        for row in rows
    ]
    show_list("rows", shown, ROWS, as_json=False)
    if len(rows) == limit:
        typer.echo(f"\nThese are the oldest {limit}: there may be more, see --limit.")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        "id": row["outbox_id"],
        "type": row["event_type"],
        "by": row["acknowledged_by"],
        "reason": row["acknowledged_reason"],
        "handled": _handled(row),
    }


def _handled(row: dict[str, Any]) -> str:
    if row["failed_at"] is None:
        return ""
    if row["requeued_as"] is not None:
        return f"requeued as {row['requeued_as']}"
    return f"by {row['acknowledged_by']}" if row["acknowledged_at"] else "no"


@app.command()
def show(queue: QueueArgument, row: RowArgument, as_json: AsJson = False) -> None:
    """Show one row with all its fields and its payload."""
    show_facts(operate(lambda store: store.outbox.show(queue, row)), as_json=as_json)


@app.command()
def requeue(
    queue: QueueArgument,
    reason: Reason,
    row: SomeRowArgument = None,
    all_failed: AllFailed = False,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Acknowledge a failed row and queue a copy of it, once. The copy goes to the end of the queue."""
    _handle(queue, row, reason, acting_as, requeue=True, all_failed=all_failed, as_json=as_json)


@app.command()
def acknowledge(
    queue: QueueArgument,
    reason: Reason,
    row: SomeRowArgument = None,
    all_failed: AllFailed = False,
    acting_as: ActingAs = "",
    as_json: AsJson = False,
) -> None:
    """Mark a failed row as handled. It stays failed and is still counted as failed."""
    _handle(queue, row, reason, acting_as, requeue=False, all_failed=all_failed, as_json=as_json)


def _handle(
    queue: Queue, row: int | None, reason: str, acting_as: str, *, requeue: bool, all_failed: bool, as_json: bool
) -> None:
    plain_name(reason, "--reason")
    if (row is None) != all_failed:
        raise OperatorError("Name the row by its ID, or use --all-failed: one of them, not both.")
    if row is None:
        rows = operate(lambda store: store.outbox.handle_all(queue, reason, requeue=requeue), acting_as)
        show_list("rows", rows if as_json else [_named(row) for row in rows], HANDLED, as_json=as_json)
        return
    outbox_id = row
    handled = operate(lambda store: store.outbox.handle(queue, outbox_id, reason, requeue=requeue), acting_as)
    show_one(handled if as_json else _named(handled), HANDLED, as_json=as_json)
