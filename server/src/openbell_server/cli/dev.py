"""The command that runs everything on this machine."""

from pathlib import Path

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dev")(dev)


def dev() -> None:
    """Run PostgreSQL, NATS and the whole platform in this terminal, with a paper account; Ctrl-C ends it."""
    from openbell_server.processes.children import ChildFailed
    from openbell_server.processes.dev import run_dev

    try:
        run_dev(Path(".openbell"))
    except ChildFailed as failure:
        typer.echo(str(failure), err=True)
        raise typer.Exit(1) from None
