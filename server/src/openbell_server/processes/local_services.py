"""PostgreSQL, NATS and on request Redis as children of this process, in a temporary folder that goes with them."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from openbell_server.processes.children import free_port
from openbell_server.processes.local_nats import LocalNats
from openbell_server.processes.local_postgres import LocalPostgres, server_user
from openbell_server.processes.local_redis import LocalRedis

_PREFIX = "openbell-services-"
# A younger folder may be between its making and its locking, or its PostgreSQL may still be ending.
_ABANDONED_AFTER_SECONDS = 60


class LocalServices:
    """The servers, for `dev`, the demo and the tests; they end when this process does."""

    # Removed when they end, or by the next ones if this process was killed.
    folder: Path
    postgres: LocalPostgres
    nats: LocalNats
    # Only where it was asked for: the platform can do without.
    redis: LocalRedis | None = None

    def __init__(self, postgres_options: Mapping[str, str] | None = None, *, with_redis: bool = False) -> None:
        self._postgres_options = postgres_options
        self._with_redis = with_redis
        self._cleanup = contextlib.ExitStack()

    def start(self) -> None:
        """Start all on free ports and wait until they serve."""
        _remove_abandoned_folders()
        with contextlib.ExitStack() as cleanup:
            self.folder = folder = _make_folder(cleanup)
            self.postgres = LocalPostgres(folder, free_port(), self._postgres_options)
            self.nats = LocalNats(folder, free_port())
            cleanup.callback(self.postgres.stop)
            self.postgres.start()
            cleanup.callback(self.nats.stop)
            self.nats.start()
            if self._with_redis:
                self.redis = LocalRedis(folder, free_port())
                cleanup.callback(self.redis.stop)
                self.redis.start()
            self._cleanup = cleanup.pop_all()

    def stop(self) -> None:
        """End all and remove all they wrote."""
        self._cleanup.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _make_folder(cleanup: contextlib.ExitStack) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # The lock says that the folder is in use, and ends with this process however that ends.
    descriptor = os.open(folder, os.O_RDONLY)
    cleanup.callback(os.close, descriptor)
    cleanup.callback(shutil.rmtree, folder)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if server_user():
        # PostgreSQL's user passes through to a folder of its own.
        folder.chmod(0o711)
    return folder


def _remove_abandoned_folders() -> None:
    """Remove what processes left that were killed before they could."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid != os.geteuid() or time.time() - facts.st_mtime < _ABANDONED_AFTER_SECONDS:
                continue
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
