"""Commands that run one process until it is told to stop."""

import typer


def register(app: typer.Typer) -> None:
    """Add the commands."""
