"""The whole platform in one terminal, with an account to trade on, until Ctrl-C."""

import contextlib
import fcntl
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from openbell_server.processes.children import ChildFailed, free_port
from openbell_server.processes.dev_issuer import DevIssuer
from openbell_server.processes.local_platform import ACME, IDENTITY_PROVIDER, LocalPlatform

WATCH_SECONDS = 0.5
RESTARTS_MAX = 20


def preferred_port(port: int) -> int:
    """The port everyone expects, if nobody has it."""
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return port
    return free_port()


def run_dev(folder: Path) -> None:
    """Run everything; the folder gets logs/, and dev.env and the key of an issuer, which are removed at the end."""
    folder.mkdir(exist_ok=True)
    environment_file = folder / "dev.env"
    lock = (folder / "dev.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ChildFailed("dev already runs in this folder; end it first, or start another one elsewhere.") from None
    with _interrupt() as stopped, DevIssuer(folder, IDENTITY_PROVIDER) as issuer:
        settings = {
            "OPENBELL_API_PORT": str(preferred_port(8080)),
            "OPENBELL_STREAM_PORT": str(preferred_port(8443)),
            "OPENBELL_ISSUERS": issuer.setting,
        }
        print("Starting PostgreSQL, NATS and five processes …", flush=True)
        with LocalPlatform(folder / "logs", settings, with_limits=True) as platform:
            environment_file.touch(mode=0o600)
            environment_file.write_text(
                "".join(f"export {name}={value}\n" for name, value in platform.client_environment().items())
            )
            try:
                _greet(platform, environment_file)
                _watch(platform, stopped)
            finally:
                environment_file.unlink(missing_ok=True)
                print("\nStopping …", flush=True)
    print("Everything has ended; nothing was kept.")


@contextlib.contextmanager
def _interrupt() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set; they also raise, so that a start is ended at once."""
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
    print(
        f"""
Openbell is ready.

  REST      {settings["OPENBELL_URL"]}, described at {settings["OPENBELL_URL"]}/docs
  stream    {settings["OPENBELL_STREAM"]} (gRPC)
  account   {settings["OPENBELL_ACCOUNT"]} (paper)
  logs      {environment_file.parent / "logs"}

In another terminal:

  . {environment_file}
  .venv/bin/openbell intents create AAPL BUY 10 --wait
  .venv/bin/openbell events tail

As a user instead of with a key (see docs/identity.md):

  .venv/bin/openbell-server tokens mint --user you --organization {ACME} --role admin

Ctrl-C ends it and leaves nothing behind.
""",
        flush=True,
    )


def _watch(platform: LocalPlatform, stopped: threading.Event) -> None:
    """Start again what ended by itself, and say so."""
    restarts = 0
    while not stopped.wait(WATCH_SECONDS):
        for name in platform.stack.watch():
            restarts += 1
            if restarts > RESTARTS_MAX:
                raise ChildFailed(f"{name} keeps ending; see {platform.stack.log(name)}")
            print(f"{name} ended by itself and is started again; see {platform.stack.log(name)}", flush=True)
            platform.stack.start(name)
