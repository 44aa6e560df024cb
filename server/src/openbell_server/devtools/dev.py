"""Runs the whole platform in one terminal, with a paper account, until Ctrl-C."""

import contextlib
import fcntl
import shlex
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from openbell_server.devtools.child_processes import ChildFailed, free_port
from openbell_server.devtools.dev_issuer import DevIssuer
from openbell_server.devtools.local_platform import ACME, IDENTITY_PROVIDER, LocalPlatform
from openbell_server.devtools.stack import PROCESSES

WATCH_SECONDS = 0.5
RESTARTS_MAX = 20


def preferred_port(port: int) -> int:
    """This port if it is free, else any free one."""
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return port
    return free_port()


def run_dev(folder: Path) -> None:
    """Run everything. Writes logs/, settings files and an issuer's key into the folder; removes all but the logs at the
    end.
    """
    folder.mkdir(exist_ok=True)
    environment_file = folder / "dev.env"
    lock = (folder / "dev.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ChildFailed(
            "dev already runs in this folder: stop it first, or start another one in a different folder."
        ) from None
    with _interrupt() as stopped, DevIssuer(folder, IDENTITY_PROVIDER) as issuer:
        settings = {
            "OPENBELL_API_PORT": str(preferred_port(8080)),
            "OPENBELL_STREAM_PORT": str(preferred_port(8443)),
            "OPENBELL_ISSUERS": issuer.setting,
            # Prices move, so that a limit order near the price fills sooner or later.
            "OPENBELL_PAPER_PRICES": "walk:seed=1,step_ms=500,bps=20",
        }
        print("Starting PostgreSQL, NATS and five processes …", flush=True)
        with LocalPlatform(folder / "logs", settings, with_limits=True) as platform:
            _write(environment_file, platform.client_environment())
            others = _server_environments(platform)
            for name, values in others.items():
                _write(folder / name, {key: value for key, value in values.items() if key.startswith("OPENBELL_")})
            try:
                _greet(platform, environment_file)
                _watch(platform, stopped)
            finally:
                for name in (environment_file.name, *others):
                    (folder / name).unlink(missing_ok=True)
                print("\nStopping …", flush=True)
    print("Everything has ended; nothing was kept.")


def _server_environments(platform: LocalPlatform) -> dict[str, dict[str, str]]:
    """Settings files for server commands: of an api, of an executor, and an operator's login."""
    stack = platform.stack
    return {
        "server.env": stack.environment_of("api"),
        "executor.env": stack.environment_of("executor"),
        "operator.env": {"OPENBELL_DATABASE_URL": platform.owner_url},
    }


def _write(file: Path, settings: Mapping[str, str]) -> None:
    file.touch(mode=0o600)
    file.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))


@contextlib.contextmanager
def _interrupt() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set; they also raise, so that a start-up is interrupted at
    once.
    """
    stopped = threading.Event()

    def stop(*_: object) -> None:
        if stopped.is_set():
            return
        stopped.set()
        raise KeyboardInterrupt

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stopped
    except KeyboardInterrupt:
        pass
    finally:
        for number, action in previous.items():
            signal.signal(number, action)


def _greet(platform: LocalPlatform, environment_file: Path) -> None:
    settings = platform.client_environment()
    at = [f"{platform.stack.operations_url(name)}/metrics ({name})" for name in PROCESSES]
    operations = "\n            ".join(at)
    print(
        f"""
Openbell is ready.

  REST      {settings["OPENBELL_URL"]}, described at {settings["OPENBELL_URL"]}/docs
  stream    {settings["OPENBELL_STREAM"]} (gRPC)
  account   {settings["OPENBELL_ACCOUNT"]} (paper)
  logs      {environment_file.parent / "logs"}
  metrics   {operations}

In another terminal:

  . {environment_file}
  .venv/bin/openbell intents create AAPL BUY 10 --wait
  .venv/bin/openbell events tail

As a user instead of with a key (see docs/identity.md):

  .venv/bin/openbell-server tokens mint --user you --organization {ACME} --role admin

As an operator, whether all is well (see docs/doctor.md), and what to do (see docs/operators.md):

  (. {environment_file.with_name("server.env")}; .venv/bin/openbell-server doctor)
  (. {environment_file.with_name("operator.env")}; .venv/bin/openbell-server outbox)
  (. {environment_file.with_name("executor.env")}; .venv/bin/openbell-server vault status)

Ctrl-C ends it and leaves nothing behind.
""",
        flush=True,
    )


def _watch(platform: LocalPlatform, stopped: threading.Event) -> None:
    """Restart processes that ended unexpectedly, and print it."""
    restarts = 0
    while not stopped.wait(WATCH_SECONDS):
        for name in platform.stack.watch():
            restarts += 1
            if restarts > RESTARTS_MAX:
                raise ChildFailed(f"{name} keeps ending; see {platform.stack.log(name)}")
            print(f"{name} ended unexpectedly and is restarted; see {platform.stack.log(name)}", flush=True)
            platform.stack.start(name)
