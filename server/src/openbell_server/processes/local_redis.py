"""A Redis server of our own that keeps nothing: found on the system, listening on this machine only."""

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from openbell_server.processes.children import Child, ChildFailed, wait_until

_OLDEST = (6, 2)
_READY_SECONDS = 20
_STOP_SECONDS = 10


class LocalRedis:
    """One Redis server; it can be killed and started again on the same port, and forgets all with its end."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.url = f"redis://127.0.0.1:{port}"
        self._folder = folder
        self._log = folder / "redis.log"
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
        """Start it and wait until it serves."""
        if self.is_running:
            return
        if self._binary is None:
            self._binary = find_redis()
        options = ("--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no")
        child = Child([self._binary, *options, "--dir", self._folder], log=self._log)
        self._child = child
        if not wait_until(lambda: self._is_ready() or not child.is_running, _READY_SECONDS) or not child.is_running:
            child.destroy()
            raise ChildFailed(f"Redis did not start on port {self.port}:\n{child.log_tail()}")

    def stop(self) -> None:
        """End it cleanly."""
        if self._child:
            self._child.stop(_STOP_SECONDS)

    def kill(self) -> None:
        """End it at once, as a power failure would."""
        if self._child:
            self._child.destroy()

    def _is_ready(self) -> bool:
        """Whether the server on the port answers, and is ours."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"INFO server\r\n")
                facts = connection.recv(16_384).decode(errors="replace")
        except OSError:
            return False
        return f"process_id:{self.pid}\r\n" in facts


def find_redis() -> Path:
    """The server's program: the named one, else the system's."""
    oldest = ".".join(map(str, _OLDEST))
    if named := os.environ.get("OPENBELL_REDIS_BIN"):
        if _version(Path(named)) < _OLDEST:
            raise ChildFailed(f"OPENBELL_REDIS_BIN is {named}, which is no redis-server {oldest} or newer.")
        return Path(named)
    found = shutil.which("redis-server")
    if found and _version(Path(found)) >= _OLDEST:
        return Path(found)
    raise ChildFailed(
        f"No redis-server {oldest} or newer was found: apt-get install redis-server, or set OPENBELL_REDIS_BIN to the"
        " program of one."
    )


def _version(program: Path) -> tuple[int, int]:
    """Major and minor version; zeros when it does not run."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    version = re.search(r"v=(\d+)\.(\d+)\.", answer.stdout)
    return (int(version[1]), int(version[2])) if version else (0, 0)
