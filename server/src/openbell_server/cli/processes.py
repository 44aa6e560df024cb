"""Commands that run one process, or a whole installation, until it receives a stop signal."""

import importlib
import os
from collections.abc import Callable

import typer

PROCESSES = {
    "api": "Serve the REST API.",
    "stream": "Serve the gRPC event stream.",
    "relay": "Notify executors of accounts that have work.",
    "executor": "Send actions to their brokers and follow their orders.",
    "console": "Serve the console, and call the api for its users.",
    "paper": "Run the built-in paper broker.",
    "front": "Run api and stream in one process, as `all` does.",
    "back": "Run relay and executor in one process, as `all` does.",
}


def register(app: typer.Typer) -> None:
    for name, purpose in PROCESSES.items():
        app.command(name, help=f"{purpose} Settings come from the environment, as OPENBELL_<NAME>.")(_runner(name))
    app.command("all")(run_all)


def run_all() -> None:
    """Run a whole installation: front (api and stream) and back (relay and executor), restarted when they end.

    Settings come from the environment: OPENBELL_FRONT_<NAME> for the front, OPENBELL_BACK_<NAME> for the back,
    OPENBELL_<NAME> for both. Each has its own database login: OPENBELL_FRONT_DATABASE_URL, OPENBELL_BACK_DATABASE_URL.
    """
    from openbell_server.processes import supervisor

    raise typer.Exit(supervisor.run(os.environ))


def _runner(name: str) -> Callable[[], None]:
    def run_process() -> None:
        # Imported here to keep `--help` fast.
        lifecycle = importlib.import_module("openbell_server.processes.lifecycle")
        settings = importlib.import_module("openbell_server.settings")
        process = importlib.import_module(f"openbell_server.processes.{name}")
        lifecycle.run(name, settings.Settings(), process.serve)

    return run_process
