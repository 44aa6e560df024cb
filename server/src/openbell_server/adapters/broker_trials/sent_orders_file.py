"""The orders of a trial in a file, which outlives the process."""

import fcntl
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path


class AnotherTrial(Exception):
    """Another process measures with this account."""


class SentOrdersFile:
    """Implements SentOrders. Only one process at a time may have it open."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise AnotherTrial from error
        self._file.seek(0)
        whole = self._file.read().rpartition("\n")[0]
        # A process that was killed while it wrote a line had not sent that order.
        self._file.truncate(len(whole.encode()) + 1 if whole else 0)
        self._sent = dict(_read(line) for line in whole.splitlines())

    def add(self, client_order_id: str, at: datetime) -> None:
        self._file.write(json.dumps([client_order_id, at.isoformat()]) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._sent[client_order_id] = at

    def all(self) -> Mapping[str, datetime]:
        return self._sent

    def clear(self) -> None:
        self._file.truncate(0)
        self._sent.clear()

    def close(self) -> None:
        self._file.close()


def _read(line: str) -> tuple[str, datetime]:
    name, at = json.loads(line)
    return name, datetime.fromisoformat(at)
