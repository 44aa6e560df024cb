"""The command that shows what the platform promises."""

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from openbell_server.processes.children import ChildFailed


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the final screen as SVG.")] = Path("build/demo.svg"),
    intents: Annotated[int, typer.Option(min=1, max=1000, hidden=True)] = 200,
) -> None:
    """Send 200 intents through crashes and time-outs, then compare both ledgers; about half a minute."""
    log_folder = Path(tempfile.mkdtemp(prefix="openbell-demo-"))
    # A shell that started us in the background made us deaf to Ctrl-C; a demo can always be ended.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        agree = _show(intents, picture, log_folder)
    except KeyboardInterrupt:
        shutil.rmtree(log_folder)
        raise
    if not agree:
        typer.echo(f"What every process said is in {log_folder}", err=True)
        raise typer.Exit(1)
    shutil.rmtree(log_folder)


def _show(intents: int, picture: Path, log_folder: Path) -> bool:
    # Imported here, so that `--help` does not pay for what it does not run.
    from openbell_server.demo.run import run_demo

    agree = False
    try:
        agree = run_demo(intents, picture, log_folder)
    except* ChildFailed as failures:
        for failure in failures.exceptions:
            typer.echo(str(failure), err=True)
    return agree
