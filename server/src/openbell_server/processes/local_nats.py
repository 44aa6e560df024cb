"""A NATS server of our own with JetStream on disk: found on the system or in a wheel, storing in a given folder."""

import json
import os
import shutil
import socket
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from openbell_server.processes.children import Child, ChildFailed, free_port
from openbell_server.processes.local_server import LocalServer, version_of

_OLDEST = (2, 12)
_VERSION = r"v(\d+)\.(\d+)\."


class LocalNats(LocalServer):
    """One NATS server; it can be killed and started again on the same port, and keeps its store until wiped."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(port)
        self.url = f"nats://127.0.0.1:{port}"
        self._monitor_port = free_port()
        self.monitor_url = f"http://127.0.0.1:{self._monitor_port}"
        # Ours alone, so that another server on the port is never taken for this one.
        self._name = f"{folder.name}-{port}"
        self._store = folder / "jetstream"
        self._config = folder / "nats.conf"
        self._log = folder / "nats.log"
        self._binary: Path | None = None

    def start(self) -> None:
        """Start it and wait until JetStream serves."""
        if self.is_running:
            return
        if self._binary is None:
            self._binary = find_nats()
        self._config.write_text(
            f'server_name: "{self._name}"\n'
            f'listen: "127.0.0.1:{self.port}"\n'
            f'http: "127.0.0.1:{self._monitor_port}"\n'
            f'jetstream {{ store_dir: "{self._store}", sync_interval: always, max_file: 512M }}\n'
        )
        self._wait_until_ready("NATS", Child([self._binary, "-c", self._config], log=self._log), self._is_ready)

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
        if version_of(Path(named), _VERSION) < _OLDEST:
            raise ChildFailed(f"OPENBELL_NATS_BIN is {named}, which is no nats-server {oldest} or newer.")
        return Path(named)
    for program in _candidates():
        if version_of(program, _VERSION) >= _OLDEST:
            return program
    raise ChildFailed(
        f"No nats-server {oldest} or newer was found: pip install 'openbell-server[dev]',"
        " or install one and set OPENBELL_NATS_BIN to its program (Debian's own is too old)."
    )


def _candidates() -> Iterator[Path]:
    if found := shutil.which("nats-server"):
        yield Path(found)
    yield Path(sysconfig.get_path("scripts")) / "nats-server"
