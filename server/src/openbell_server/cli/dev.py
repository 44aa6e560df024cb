"""The command that runs the whole platform on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from openbell_server.cli.services import errors_as_messages


def dev(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="The port of the REST API. Default: 8080, or a free one if it is taken."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="A folder for the data: the next start with it goes on with its accounts, keys and orders."),
    ] = None,
) -> None:
    """Run PostgreSQL, NATS and the whole platform in this terminal, with a paper account; Ctrl-C stops it.

    PostgreSQL has no network port, NATS has a password, and all secrets are new at each start, or stored in the folder
    of --keep.
    """
    from openbell_server.devtools.dev import run_dev

    with errors_as_messages():
        run_dev(Path(".openbell"), port, keep)
