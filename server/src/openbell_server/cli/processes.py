"""Commands that run one process until it is told to stop."""

import importlib
from collections.abc import Callable

import typer

PROCESSES = {
    "api": "Serve the REST interface.",
    "stream": "Serve the gRPC event stream.",
    "relay": "Tell executors which accounts have work.",
    "executor": "Take actions to their brokers and follow their orders.",
    "paper": "Run the built-in paper broker.",
}


def register(app: typer.Typer) -> None:
    """Add a command for each process."""
    for name, purpose in PROCESSES.items():
        app.command(name, help=f"{purpose} Settings come from the environment, as OPENBELL_<NAME>.")(_runner(name))


def _runner(name: str) -> Callable[[], None]:
    def run_process() -> None:
        # Imported here, so that `--help` does not pay for what it does not run.
        lifecycle = importlib.import_module("openbell_server.processes.lifecycle")
        settings = importlib.import_module("openbell_server.settings")
        process = importlib.import_module(f"openbell_server.processes.{name}")
        lifecycle.run(name, settings.Settings(), process.serve)

    return run_process
