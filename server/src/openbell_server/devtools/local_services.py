"""Runs PostgreSQL, NATS and optionally Redis as child processes in a temporary folder."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.local_nats import LocalNats
from openbell_server.devtools.local_postgres import LocalPostgres, server_user
from openbell_server.devtools.local_redis import LocalRedis

_PREFIX = "openbell-services-"
# A younger folder may not be locked yet, or its PostgreSQL may still be shutting down.
_ABANDONED_AFTER_SECONDS = 60


class LocalServices:
    """The servers for `dev`, the demo and the tests; they end with this process.

    kept is a folder for the data of PostgreSQL and NATS; it is not removed at the end.
    """

    # Removed at the end, or by the next start if this process was killed.
    folder: Path
    postgres: LocalPostgres
    nats: LocalNats
    # Only with with_redis: the platform works without it.
    redis: LocalRedis | None = None

    def __init__(
        self,
        postgres_options: Mapping[str, str] | None = None,
        *,
        with_redis: bool = False,
        kept: Path | None = None,
    ) -> None:
        self._kept = kept
        self._postgres_options = postgres_options
        self._with_redis = with_redis
        self._cleanup = contextlib.ExitStack()

    def start(self) -> None:
        _remove_abandoned_folders()
        with contextlib.ExitStack() as cleanup:
            self.folder = folder = _make_folder(cleanup)
            self.postgres = LocalPostgres(folder, free_port(), self._postgres_options, self._kept)
            self.nats = LocalNats(folder, free_port(), self._kept)
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
        """Stop all and remove their files."""
        self._cleanup.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _make_folder(cleanup: contextlib.ExitStack) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # The lock marks the folder as used, and ends with this process in any case.
    descriptor = os.open(folder, os.O_RDONLY)
    cleanup.callback(os.close, descriptor)
    cleanup.callback(shutil.rmtree, folder)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if server_user():
        # PostgreSQL's user must be able to enter its own folder.
        folder.chmod(0o711)
    return folder


def _remove_abandoned_folders() -> None:
    """Remove folders of processes that were killed."""
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
