"""Runs the whole platform in one terminal, with a paper account, until Ctrl-C."""

import contextlib
import fcntl
import json
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from openbell_server.devtools import console_build
from openbell_server.devtools.child_processes import ChildFailed, free_port, reserve_port
from openbell_server.devtools.dev_issuer import DevIssuer
from openbell_server.devtools.kept_folder import KeptFolder
from openbell_server.devtools.local_platform import IDENTITY_PROVIDER, LocalPlatform
from openbell_server.devtools.local_server import write_private
from openbell_server.processes.supervisor import PARTS

WATCH_SECONDS = 0.5
RESTARTS_MAX = 20
API_PORT = 8080
STREAM_PORT = 8443
CONSOLE_PORT = 8070
# The default port of examples/webhook_receiver.py.
RECEIVER_PORT = 9000
_RECEIVERS = "OPENBELL_WEBHOOK_PRIVATE_TARGETS"
# Another program may take a port between our check and the start of its server.
PORT_TRIES = 3


def preferred_port(port: int) -> int:
    """This port if it is free, else any free one."""
    return port if reserve_port(port) else free_port()


def run_dev(folder: Path, port: int | None = None, keep: Path | None = None) -> None:
    """Run everything. Writes logs/, settings files and an issuer's key into the folder; removes all but the logs at the
    end. With keep, the data is stored there, and used again by the next start.
    """
    if port is not None and not reserve_port(port):
        raise ChildFailed(_taken(port))
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = (folder / "dev.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ChildFailed(
            "dev already runs in this folder: stop it first, or start another one in a different folder."
        ) from None
    with (
        _interrupt() as stopped,
        DevIssuer(folder, IDENTITY_PROVIDER) as issuer,
        contextlib.ExitStack() as opened,
    ):
        kept = opened.enter_context(KeptFolder(keep)) if keep else None
        _build_console()
        print("Starting PostgreSQL, NATS, the platform and the paper broker …", flush=True)
        platform = _start(folder / "logs", issuer, port, kept)
        opened.callback(platform.stop)
        console = {"OPENBELL_CONSOLE_URL": platform.stack.environment["OPENBELL_CONSOLE_URL"]}
        files = _settings_files(platform, issuer.login_environment | console)
        for name, values in files.items():
            text = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in values.items())
            write_private(folder / name, text)
        try:
            _greet(platform, folder, keep, issuer.sign_in_key)
            _watch(platform, stopped)
        finally:
            for name in files:
                (folder / name).unlink(missing_ok=True)
            print("\nStopping …", flush=True)
    print(f"Everything has ended; the data is kept in {keep}." if keep else "Everything has ended; nothing was kept.")


def _build_console() -> None:
    """Build the pages in a checkout that changed; without them everything else runs."""
    if not console_build.has_sources() or console_build.is_current() or not console_build.has_node():
        return
    print("Building the pages of the console …", flush=True)
    try:
        console_build.build_if_stale()
    except ChildFailed as failure:
        print(f"{failure}\nThe console starts with the pages that were there before, if any.", flush=True)


def _start(logs: Path, issuer: DevIssuer, port: int | None, kept: KeptFolder | None) -> LocalPlatform:
    """Start a platform; if another program took a port meanwhile, try again with other ports."""
    allowed = {_RECEIVERS: json.dumps([f"127.0.0.1:{preferred_port(RECEIVER_PORT)}"])}
    if kept:
        # Webhooks of earlier starts keep their receiver.
        kept.settings = allowed = allowed | kept.settings
    tries = 0
    while True:
        tries += 1
        console_port = preferred_port(CONSOLE_PORT)
        settings = {
            "OPENBELL_API_PORT": str(port or preferred_port(API_PORT)),
            "OPENBELL_STREAM_PORT": str(preferred_port(STREAM_PORT)),
            "OPENBELL_ISSUERS": issuer.setting,
            "OPENBELL_CONSOLE_PORT": str(console_port),
            **issuer.console_environment(f"http://127.0.0.1:{console_port}"),
            "OPENBELL_ALPACA_FRONT": "true",
            # Prices move, so that a limit order near the price fills sooner or later.
            "OPENBELL_PAPER_PRICES": "walk:seed=1,step_ms=500,bps=20",
            _RECEIVERS: allowed[_RECEIVERS],
        }
        platform = LocalPlatform(logs, settings, with_limits=True, processes=("paper", "all", "console"), kept=kept)
        try:
            platform.start()
        except ChildFailed as failure:
            if not failure.is_port_taken or tries == PORT_TRIES:
                raise
            if port is not None and f":{port} " in str(failure):
                raise ChildFailed(_taken(port)) from failure
            print("Another program took one of the ports; starting again with others …", flush=True)
        else:
            return platform


def _taken(port: int) -> str:
    return f"Port {port} of 127.0.0.1 is taken: stop the program that uses it, or choose another with --port."


def _settings_files(platform: LocalPlatform, login: dict[str, str]) -> dict[str, dict[str, str]]:
    """Settings for the client, and for server commands: of the front, of the back, and an operator's login."""
    stack = platform.stack
    return {
        "dev.env": platform.client_environment() | _for_alpaca_bots(platform.client_environment()) | login,
        "server.env": _own_settings(stack.environment_of("front")),
        "executor.env": _own_settings(stack.environment_of("back")),
        "operator.env": {"OPENBELL_DATABASE_URL": platform.owner_url},
    }


def _for_alpaca_bots(client: dict[str, str]) -> dict[str, str]:
    """Under the names by which bots that were written for Alpaca read them."""
    return {
        "APCA_API_BASE_URL": f"{client['OPENBELL_URL']}/alpaca",
        "APCA_API_KEY_ID": client["OPENBELL_ACCOUNT"],
        "APCA_API_SECRET_KEY": client["OPENBELL_API_KEY"],
    }


def _own_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith("OPENBELL_")}


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


def _greet(platform: LocalPlatform, folder: Path, keep: Path | None, sign_in_key: str) -> None:
    client, stack = platform.client_environment(), platform.stack
    (receiver,) = json.loads(stack.environment[_RECEIVERS])
    ports = [f"{name} {stack.operations_url(name).rpartition(':')[2]}" for name in ("paper", "console", *PARTS)]
    openbell, server = _program("openbell"), _program("openbell-server")
    data = f"kept in {keep}" if keep else "removed at the end; `dev --keep DIR` keeps it"
    ending = "the next start goes on from there" if keep else "nothing is left behind"
    # Fits a terminal of 24 rows and 80 columns.
    print(
        f"""
Openbell is ready. Ctrl-C stops it; {ending}.

  console   {stack.environment["OPENBELL_CONSOLE_URL"]}/console/login?login_hint={sign_in_key}
  REST      {client["OPENBELL_URL"]}, described at {client["OPENBELL_URL"]}/docs
  Alpaca    {client["OPENBELL_URL"]}/alpaca, for bots written for Alpaca; .openbell/dev.env has their settings
  stream    {client["OPENBELL_STREAM"]} (gRPC)
  account   {client["OPENBELL_ACCOUNT"]} (paper)
  key       {client["OPENBELL_API_KEY"]}
  webhooks  on this machine only to http://{receiver}/
  data      {data}; logs in {folder / "logs"}
  metrics   http://127.0.0.1:PORT/metrics, PORT: {", ".join(ports)}

In another terminal, trade with the key:

  . {folder / "dev.env"}
  {openbell} intents create AAPL BUY 10 --wait
  {openbell} events tail

Or sign in as a user, check the platform, look at its queues:

  {openbell} --profile dev login
  (. {folder / "server.env"}; {server} doctor)
  (. {folder / "operator.env"}; {server} outbox)""",
        flush=True,
    )


def _program(name: str) -> str:
    """How to call it from the current folder."""
    here = Path(sys.executable).with_name(name)
    if shutil.which(name) == str(here):
        return name
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)


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
