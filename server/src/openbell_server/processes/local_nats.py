"""A NATS server of our own with JetStream on disk: found on the system or in a wheel, storing in a given folder."""

import json
import os
import re
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from openbell_server.processes.children import Child, ChildFailed, wait_until

_OLDEST = (2, 12)
_READY_SECONDS = 20
_STOP_SECONDS = 10


class LocalNats:
    """One NATS server; it can be killed and started again on the same port, and keeps its store until wiped."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.url = f"nats://127.0.0.1:{port}"
        # Ours alone, so that another server on the port is never taken for this one.
        self._name = f"{folder.name}-{port}"
        self._store = folder / "jetstream"
        self._config = folder / "nats.conf"
        self._log = folder / "nats.log"
        self._binary: Path | None = None
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        """The server's process while it runs."""
        return self._child.pid if self.is_running and self._child else None

    @property
    def is_running(self) -> bool:
        """Whether the server's process runs."""
        return self._child is not None and self._child.is_running

    def start(self) -> None:
        """Start it and wait until JetStream serves."""
        if self.is_running:
            return
        if self._binary is None:
            self._binary = find_nats()
        self._config.write_text(
            f'server_name: "{self._name}"\n'
            f'listen: "127.0.0.1:{self.port}"\n'
            f'jetstream {{ store_dir: "{self._store}", sync_interval: always, max_file: 512M }}\n'
        )
        child = Child([self._binary, "-c", self._config], log=self._log)
        self._child = child
        if not wait_until(lambda: self._is_ready() or not child.is_running, _READY_SECONDS) or not child.is_running:
            child.destroy()
            raise ChildFailed(f"NATS did not start on port {self.port}:\n{child.log_tail()}")

    def stop(self) -> None:
        """End it cleanly."""
        if self._child:
            self._child.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """End it at once, as a power failure would."""
        if self._child:
            self._child.destroy()

    def wipe(self) -> None:
        """Delete its store: every stream and message; only while it is stopped."""
        if self.is_running:
            raise RuntimeError("stop NATS before wiping its store")
        shutil.rmtree(self._store, ignore_errors=True)

    def _is_ready(self) -> bool:
        """Whether our server greets, and with JetStream."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                greeting = connection.makefile("rb").readline()
            facts = json.loads(greeting.removeprefix(b"INFO "))
        except (OSError, ValueError):
            return False
        return facts.get("server_name") == self._name and facts.get("jetstream") is True


def find_nats() -> Path:
    """The server's program: the named one, else the system's, else the wheel's."""
    oldest = ".".join(map(str, _OLDEST))
    if named := os.environ.get("OPENBELL_NATS_BIN"):
        if _version(Path(named)) < _OLDEST:
            raise ChildFailed(f"OPENBELL_NATS_BIN is {named}, which is no nats-server {oldest} or newer.")
        return Path(named)
    for program in _candidates():
        if _version(program) >= _OLDEST:
            return program
    raise ChildFailed(
        f"No nats-server {oldest} or newer was found: pip install 'openbell-server[dev]',"
        " or install one and set OPENBELL_NATS_BIN to its program (Debian's own is too old)."
    )


def _candidates() -> Iterator[Path]:
    if found := shutil.which("nats-server"):
        yield Path(found)
    yield Path(sysconfig.get_path("scripts")) / "nats-server"


def _version(program: Path) -> tuple[int, int]:
    """Major and minor version; zeros when it does not run."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    version = re.search(r"v(\d+)\.(\d+)\.", answer.stdout)
    return (int(version[1]), int(version[2])) if version else (0, 0)
