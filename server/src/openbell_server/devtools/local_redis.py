"""A local Redis server without persistence, on loopback only."""

import os
import shutil
import socket
from pathlib import Path

from openbell_server.devtools.child_processes import Child, ChildFailed
from openbell_server.devtools.local_server import LocalServer, version_of

_OLDEST = (6, 2)
_VERSION = r"v=(\d+)\.(\d+)\."


class LocalRedis(LocalServer):
    """A Redis server that can be killed and restarted on the same port; it loses all data when it ends."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(port)
        self.url = f"redis://127.0.0.1:{port}"
        self._folder = folder
        self._log = folder / "redis.log"
        self._binary: Path | None = None

    def start(self) -> None:
        if self.is_running:
            return
        if self._binary is None:
            self._binary = find_redis()
        options = ("--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no")
        self._wait_until_ready(
            "Redis", Child([self._binary, *options, "--dir", self._folder], log=self._log), self._is_ready
        )

    def _is_ready(self) -> bool:
        """Checks the process id, so that another server on the port is not mistaken for ours."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"INFO server\r\n")
                facts = connection.recv(16_384).decode(errors="replace")
        except OSError:
            return False
        return f"process_id:{self.pid}\r\n" in facts


def find_redis() -> Path:
    """The program of OPENBELL_REDIS_BIN, else the system's."""
    oldest = ".".join(map(str, _OLDEST))
    if named := os.environ.get("OPENBELL_REDIS_BIN"):
        if version_of(Path(named), _VERSION) < _OLDEST:
            raise ChildFailed(f"OPENBELL_REDIS_BIN is {named}, which is not redis-server {oldest} or newer.")
        return Path(named)
    found = shutil.which("redis-server")
    if found and version_of(Path(found), _VERSION) >= _OLDEST:
        return Path(found)
    raise ChildFailed(
        f"No redis-server {oldest} or newer was found: apt-get install redis-server, or set OPENBELL_REDIS_BIN to its"
        " program."
    )
