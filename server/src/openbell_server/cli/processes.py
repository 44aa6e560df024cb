"""Commands that run one process until it receives a stop signal."""

import importlib
from collections.abc import Callable

import typer

PROCESSES = {
    "api": "Serve the REST API.",
    "stream": "Serve the gRPC event stream.",
    "relay": "Notify executors of accounts that have work.",
    "executor": "Send actions to their brokers and follow their orders.",
    "paper": "Run the built-in paper broker.",
}


def register(app: typer.Typer) -> None:
    for name, purpose in PROCESSES.items():
        app.command(name, help=f"{purpose} Settings come from the environment, as OPENBELL_<NAME>.")(_runner(name))


def _runner(name: str) -> Callable[[], None]:
    def run_process() -> None:
        # Imported here to keep `--help` fast.
        lifecycle = importlib.import_module("openbell_server.processes.lifecycle")
        settings = importlib.import_module("openbell_server.settings")
        process = importlib.import_module(f"openbell_server.processes.{name}")
        lifecycle.run(name, settings.Settings(), process.serve)

    return run_process
