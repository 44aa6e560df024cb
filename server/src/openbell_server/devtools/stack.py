"""Runs the platform's processes as children: for `dev`, the demo, end-to-end tests and proofs."""

import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from openbell_server.adapters.postgres.connection import LOGIN_ROLES
from openbell_server.devtools.child_processes import Child, ChildFailed, free_port, wait_until
from openbell_server.devtools.local_services import LocalServices
from openbell_server.processes.lifecycle import DRAIN_SECONDS
from openbell_server.processes.readiness import is_ready
from openbell_server.processes.supervisor import PARTS

PROCESSES = ("paper", "api", "relay", "executor", "stream")
# A process drains within DRAIN_SECONDS; the rest is for the interpreter's exit.
_STOP_SECONDS = DRAIN_SECONDS + 5
# On an overloaded machine the imports can take a minute instead of two seconds.
START_SECONDS = 120
# Each process has its own.
_OF_EACH = frozenset({"OPENBELL_DATABASE_URL", "OPENBELL_VAULT_KEY"})
_REPLICA = re.compile(r"-\d+$")
# One login per process, which owns nothing: openbell_app_api, openbell_app_stream and so on.
LOGINS = "openbell_app"


def platform_command(process: str) -> list[str]:
    return [sys.executable, "-m", "openbell_server", process]


@dataclass
class _Member:
    """A process and the socket on which it reports readiness."""

    child: Child
    notices: socket.socket
    ready: bool = False

    def notify(self) -> bool:
        """Read pending notices; returns whether it is ready."""
        while not self.ready:
            try:
                notice = self.notices.recv(4096)
            except BlockingIOError:
                break
            self.ready = is_ready(notice)
        return self.ready


class Stack:
    """Starts, watches, kills and drains processes by name; "executor-2" is a second "executor"."""

    child_class: ClassVar[type[Child]] = Child

    def __init__(
        self,
        services: LocalServices,
        environment: Mapping[str, str],
        log_folder: Path,
        command: Callable[[str], Sequence[str]] = platform_command,
        executor_environment: Mapping[str, str] | None = None,
        processes: Sequence[str] = PROCESSES,
    ) -> None:
        self.environment = {**_default_settings(services), **environment}
        # Overrides for executors.
        self.executor_environment = {**(executor_environment or {})}
        self.processes = processes
        self._services = services
        self._log_folder = log_folder
        self._command = command
        self._members: dict[str, _Member] = {}
        self._settings: dict[str, Mapping[str, str]] = {}
        self._operations_ports: dict[str, str] = {}
        # Not in the log folder: a socket path may have at most 107 bytes.
        self._notice_folder: Path | None = None

    def start(self, name: str, settings: Mapping[str, str] | None = None) -> None:
        """Start one process; its own settings, such as a replica's port, also apply to later restarts."""
        if name in self._members:
            if self._members[name].child.is_running:
                raise ChildFailed(f"{name} already runs")
            self._forget(name)
        if settings is not None:
            self._settings[name] = settings
        self._log_folder.mkdir(parents=True, exist_ok=True)
        notices, address = self._open_notices(name)
        try:
            child = self.child_class(
                self._command(_REPLICA.sub("", name)),
                log=self.log(name),
                environment={**self.environment_of(name), "NOTIFY_SOCKET": address},
            )
        except BaseException:
            notices.close()
            raise
        self._members[name] = _Member(child, notices)

    def start_all(self, seconds: float = START_SECONDS) -> None:
        """Start one of each and wait until all are ready; the deadline applies to each."""
        for name in self.processes:
            self.start(name)
        for name in self.processes:
            self.wait_ready(name, seconds)

    def wait_ready(self, name: str, seconds: float = START_SECONDS) -> None:
        """Raises ChildFailed if the process ends or is not ready in time."""
        member = self._members[name]
        wait_until(lambda: member.notify() or not member.child.is_running, seconds)
        if member.notify():
            return
        what = f"is not ready after {seconds} s" if member.child.is_running else f"ended ({member.child.returncode})"
        raise ChildFailed(f"{name} {what}:\n{member.child.log_tail()}")

    def stop(self, name: str) -> int:
        """Drain and stop a process; returns its exit status."""
        status = self._members[name].child.stop(_STOP_SECONDS)
        self._forget(name)
        return status

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; a process killed by SIGKILL is not reported by watch()."""
        child = self._members[name].child
        if number == signal.SIGKILL:
            child.destroy()
            self._forget(name)
        else:
            child.kill(number)

    def restart(self, name: str, seconds: float = START_SECONDS) -> None:
        if name in self._members:
            self.stop(name)
        self.start(name)
        self.wait_ready(name, seconds)

    def stop_all(self) -> None:
        """Drain and stop all, the last started first."""
        for name in reversed(list(self._members)):
            self.stop(name)
        if self._notice_folder:
            shutil.rmtree(self._notice_folder)
            self._notice_folder = None

    def watch(self) -> list[str]:
        """Names of the processes that ended unexpectedly and were not restarted."""
        return [name for name, member in self._members.items() if not member.child.is_running]

    def operations_url(self, name: str) -> str:
        """Address of a process's metrics, the same after a restart."""
        return f"http://127.0.0.1:{self._operations_ports[name]}"

    def is_running(self, name: str) -> bool:
        return name in self._members and self._members[name].child.is_running

    def returncode(self, name: str) -> int | None:
        """Negative for a signal; None while it runs."""
        return self._members[name].child.returncode

    def pid(self, name: str) -> int:
        return self._members[name].child.pid

    def log(self, name: str) -> Path:
        return self._log_folder / f"{name}.log"

    def environment_of(self, name: str) -> dict[str, str]:
        """The environment of a process; its operations port stays the same after a restart."""
        # Ignore OPENBELL_* settings of the caller's shell.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("OPENBELL_")}
        process = _REPLICA.sub("", name)
        if process == "all":
            parts = {part: self._own_settings(part, part) for part in PARTS}
            own = {
                f"OPENBELL_{part.upper()}_{key.removeprefix('OPENBELL_')}": value
                for part, settings in parts.items()
                for key, value in settings.items()
            }
            shared = {key: value for key, value in self.environment.items() if key not in _OF_EACH}
        else:
            own, shared = self._own_settings(name, process), self.environment
        return {**inherited, **shared, **own, **self._settings.get(name, {})}

    def _own_settings(self, name: str, process: str) -> dict[str, str]:
        own = {"OPENBELL_OPERATIONS_PORT": self._operations_ports.setdefault(name, str(free_port()))}
        if process in LOGIN_ROLES:
            own["OPENBELL_DATABASE_URL"] = self.database_url(process)
        # What the caller chose comes first, but an executor has keys of its own.
        own |= {key: self.environment[key] for key in _OF_EACH & self.environment.keys()}
        if process in {"executor", "back"}:
            own |= {**self.executor_environment, "OPENBELL_EXECUTOR_NAME": name}
        return own

    def database_url(self, process: str) -> str:
        """The database for the login of the process."""
        return self._services.postgres.url("openbell", f"{LOGINS}_{process}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()

    def _forget(self, name: str) -> None:
        self._members.pop(name).notices.close()

    def _open_notices(self, name: str) -> tuple[socket.socket, str]:
        if self._notice_folder is None:
            self._notice_folder = Path(tempfile.mkdtemp(prefix="openbell-stack-"))
        address = self._notice_folder / name
        address.unlink(missing_ok=True)
        notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notices.setblocking(False)
        notices.bind(str(address))
        return notices, str(address)


def _default_settings(services: LocalServices) -> dict[str, str]:
    redis = {"OPENBELL_REDIS_URL": services.redis.url} if services.redis else {}
    return {
        **redis,
        "OPENBELL_PAPER_DATABASE_URL": services.postgres.url("openbell_paper"),
        "OPENBELL_NATS_URL": services.nats.url,
        "OPENBELL_NATS_MONITOR_URL": services.nats.monitor_url,
        "OPENBELL_CURSOR_SECRET": secrets.token_hex(32),
        "OPENBELL_WEBHOOK_KEY": secrets.token_hex(32),
        "OPENBELL_CONSOLE_KEY": secrets.token_hex(32),
        "OPENBELL_PAPER_SECRET": secrets.token_hex(32),
        "OPENBELL_API_PORT": str(free_port()),
        "OPENBELL_STREAM_PORT": str(free_port()),
        "OPENBELL_PAPER_PORT": str(free_port()),
        "OPENBELL_CONSOLE_PORT": str(free_port()),
    }
