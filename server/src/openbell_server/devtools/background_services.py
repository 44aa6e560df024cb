"""Runs PostgreSQL and NATS for a checkout in a detached process, and starts and stops it."""

import contextlib
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from openbell_server.devtools.child_processes import ChildFailed, ProcessStamp, log_tail, wait_until
from openbell_server.devtools.local_services import LocalServices

_UP_SECONDS = 90
_DOWN_SECONDS = 60
_STATE = "services.json"
_DRAFT = "services.json.draft"
_LOG = "services.log"
_DATABASES = ("openbell", "openbell_paper")


@dataclass(frozen=True, slots=True)
class KeptServices:
    """The detached process and the addresses of its services."""

    pid: int
    started: int
    database_url: str
    paper_database_url: str
    nats_url: str
    cursor_secret: str
    # Empty if an older version started the services.
    paper_secret: str = ""

    @property
    def keeper(self) -> ProcessStamp:
        return ProcessStamp(self.pid, self.started)

    def environment(self) -> dict[str, str]:
        names = ("database_url", "paper_database_url", "nats_url", "cursor_secret", "paper_secret")
        return {f"OPENBELL_{name.upper()}": getattr(self, name) for name in names}


def running_services(folder: Path) -> KeptServices | None:
    """The services of this folder, or None if none run."""
    kept = _recorded(folder)
    return kept if kept and kept.keeper.is_running else None


def start_services(folder: Path) -> KeptServices:
    """Start the services unless they run, and wait until they are ready; raises ChildFailed."""
    folder.mkdir(exist_ok=True)
    with _alone(folder):
        if kept := running_services(folder):
            return kept
        (folder / _STATE).unlink(missing_ok=True)
        with (folder / _LOG).open("wb") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "openbell_server.devtools.background_services", str(folder.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        kept = None
        try:
            wait_until(lambda: running_services(folder) is not None or keeper.poll() is not None, _UP_SECONDS)
            kept = running_services(folder)
        finally:
            # After a timeout or an interrupt nothing else would stop it.
            if kept is None:
                keeper.terminate()
        if kept is None:
            raise ChildFailed(f"The services did not start:\n{log_tail(folder / _LOG)}")
        return kept


def stop_services(folder: Path) -> bool:
    """Stop the services and remove their files; False if none ran."""
    if not folder.is_dir():
        return False
    with _alone(folder):
        kept = running_services(folder)
        if kept:
            owned = [kept.keeper, *kept.keeper.descendants()]
            kept.keeper.kill(signal.SIGTERM)
            if not _ended(owned, _DOWN_SECONDS):
                for process in owned:
                    process.kill()
                if not _ended(owned, _DOWN_SECONDS):
                    raise ChildFailed(
                        f"The services of process {kept.pid} did not end within {_DOWN_SECONDS} s after SIGKILL."
                    )
        for name in (_STATE, _DRAFT, _LOG):
            (folder / name).unlink(missing_ok=True)
        return kept is not None


def _ended(processes: list[ProcessStamp], seconds: float) -> bool:
    return wait_until(lambda: not any(process.is_running for process in processes), seconds)


def keep(folder: Path) -> None:
    """Run the services until a signal, until one of them ends, or until the state file is gone."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    stamp = ProcessStamp.of(os.getpid())
    assert stamp is not None
    with LocalServices() as services:
        create_databases(services.postgres.url())
        kept = KeptServices(
            pid=stamp.pid,
            started=stamp.started,
            database_url=services.postgres.url(_DATABASES[0]),
            paper_database_url=services.postgres.url(_DATABASES[1]),
            nats_url=services.nats.url,
            cursor_secret=secrets.token_hex(32),
            paper_secret=secrets.token_hex(32),
        )
        _record(folder, kept)
        # Without the state file nobody could stop this process, so it also ends when the checkout is deleted.
        while _recorded(folder) == kept and services.postgres.is_running and services.nats.is_running:
            time.sleep(1)


def _leave(*_: object) -> None:
    # A second signal must not interrupt the shutdown.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def create_databases(url: str) -> None:
    """Create those that are missing."""
    # Imported here, because the command line imports this module and must start quickly.
    import asyncio

    import asyncpg

    async def create() -> None:
        connection = await asyncpg.connect(url, timeout=10)
        try:
            for name in _DATABASES:
                with contextlib.suppress(asyncpg.DuplicateDatabaseError):
                    await connection.execute(f"create database {name}", timeout=30)
        finally:
            await connection.close(timeout=10)

    asyncio.run(create())


def _record(folder: Path, kept: KeptServices) -> None:
    draft = folder / _DRAFT
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(asdict(kept), indent=2) + "\n")
    draft.replace(folder / _STATE)


def _recorded(folder: Path) -> KeptServices | None:
    try:
        return KeptServices(**json.loads((folder / _STATE).read_text()))
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that two commands do not start two sets of services."""
    descriptor = os.open(folder, os.O_RDONLY)

    def locked() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        if not wait_until(locked, _UP_SECONDS):
            raise ChildFailed(f"Another command has been working on {folder} for {_UP_SECONDS} s.")
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    try:
        keep(Path(sys.argv[1]))
    except ChildFailed as failure:
        sys.exit(str(failure))
