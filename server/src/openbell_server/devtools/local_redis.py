"""A local Redis server without persistence, on loopback only, with a password."""

import secrets
import shutil
import socket
from pathlib import Path

from openbell_server.devtools.child_processes import Child
from openbell_server.devtools.local_server import LocalServer, find_program, version_of, write_private


class LocalRedis(LocalServer):
    """A Redis server that can be killed and restarted on the same port; it loses all data when it ends."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(port)
        self.password = secrets.token_hex(16)
        self._folder = folder
        self._config = folder / "redis.conf"
        self._log = folder / "redis.log"
        self._binary: Path | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}"

    def start(self) -> None:
        if self.is_running:
            return
        if self._binary is None:
            self._binary = find_redis()
        write_private(
            self._config,
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {self.password}\n"
            f'save ""\nappendonly no\ndir "{self._folder}"\n',
        )
        self._wait_until_ready("Redis", Child([self._binary, self._config], log=self._log), self._is_ready)

    def _is_ready(self) -> bool:
        """Checks the process id, so that another server on the port is not mistaken for ours."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(f"AUTH {self.password}\r\nINFO server\r\nQUIT\r\n".encode())
                facts = connection.makefile("rb").read().decode(errors="replace")
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
