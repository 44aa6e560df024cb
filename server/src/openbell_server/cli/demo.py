"""The command that demonstrates what a time-out of the broker does to a plain client and to Openbell."""

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from openbell_server.devtools.child_processes import ChildFailed


def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the final screen as SVG.")] = Path("build/demo.svg"),
    intents: Annotated[int, typer.Option(min=1, max=1000, hidden=True)] = 200,
) -> None:
    """Place the same 200 orders by a plain client and by Openbell at a broker that fails; takes less than a minute."""
    log_folder = Path(tempfile.mkdtemp(prefix="openbell-demo-"))
    # A shell that starts a process in the background makes it ignore Ctrl-C; a demo must always stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        agree = _show(intents, picture, log_folder)
    except KeyboardInterrupt:
        shutil.rmtree(log_folder)
        raise
    if not agree:
        typer.echo(f"The logs of all processes are in {log_folder}", err=True)
        raise typer.Exit(1)
    shutil.rmtree(log_folder)


def _show(intents: int, picture: Path, log_folder: Path) -> bool:
    # Imported here to keep `--help` fast.
    from openbell_server.devtools.demo.run import run_demo

    agree = False
    try:
        agree = run_demo(intents, picture, log_folder)
    except* ChildFailed as failures:
        for failure in failures.exceptions:
            typer.echo(str(failure), err=True)
    return agree
