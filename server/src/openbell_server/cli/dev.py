"""The command that runs the whole platform on this machine."""

from pathlib import Path

from openbell_server.cli.services import errors_as_messages


def dev() -> None:
    """Run PostgreSQL, NATS and the whole platform in this terminal, with a paper account; Ctrl-C stops it."""
    from openbell_server.devtools.dev import run_dev

    with errors_as_messages():
        run_dev(Path(".openbell"))
