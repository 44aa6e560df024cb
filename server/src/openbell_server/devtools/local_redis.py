"""A local Redis server without persistence, on loopback only."""

import shutil
import socket
from pathlib import Path

from openbell_server.devtools.child_processes import Child
from openbell_server.devtools.local_server import LocalServer, find_program, version_of


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
    found = shutil.which("redis-server")
    return find_program(
        "OPENBELL_REDIS_BIN",
        "redis-server 6.2",
        [Path(found)] if found else [],
        lambda program: version_of(program, r"v=(\d+)\.(\d+)\.") >= (6, 2),
        "apt-get install redis-server, or set OPENBELL_REDIS_BIN to its program.",
    )
