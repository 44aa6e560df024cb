"""The folder of `dev --keep`: data and secrets that the next start goes on with."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

from openbell_server.adapters.postgres import migrations
from openbell_server.brokers import paper
from openbell_server.devtools.child_processes import ChildFailed, bound_to_us
from openbell_server.devtools.local_postgres import server_user
from openbell_server.devtools.local_server import write_private

_STATE = "dev.json"
_LOCK = "lock"
_DATA = ("postgres", "jetstream", "vault")
_SECRETS = ("OPENBELL_CURSOR_SECRET", "OPENBELL_WEBHOOK_KEY")


class KeptFolder:
    """A locked folder with mode 700. settings are secrets for the processes; seeded is None before the first start has
    succeeded.
    """

    def __init__(self, path: Path) -> None:
        # PostgreSQL runs in another working folder.
        self.path = path.absolute()
        self.settings: dict[str, str] = {}
        self.seeded: list[str] | None = None

    def __enter__(self) -> Self:
        """Raises ChildFailed if the folder cannot be used."""
        try:
            self._make()
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise ChildFailed(f"The folder {self.path} cannot be used: {error.strerror}. Choose another.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._load()
        except BlockingIOError:
            os.close(self._lock)
            raise ChildFailed(f"Another dev uses {self.path}: stop it first, or choose another folder.") from None
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def save(self, seeded: list[str] | None) -> None:
        """Write what the next start needs; without seeded data it starts anew."""
        self.seeded = seeded
        state = {"schema": _schema(), "settings": self.settings, "seeded": seeded}
        draft = self.path / f"{_STATE}.draft"
        write_private(draft, json.dumps(state, indent=2) + "\n")
        draft.replace(self.path / _STATE)

    def _make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.path / _STATE).exists() and {entry.name for entry in self.path.iterdir()} - {_LOCK}:
            raise ChildFailed(f"{self.path} has files that dev did not make: choose a new or an empty folder.")
        self.path.chmod(0o700)
        if user := server_user():
            # PostgreSQL does not run as root, and its user must be able to enter.
            os.chown(self.path, user.pw_uid, user.pw_gid)
            can_enter = [*bound_to_us(user, signal.SIGKILL), "test", "-x", str(self.path)]
            if subprocess.run(can_enter, timeout=10, check=False, cwd="/").returncode != 0:
                raise ChildFailed(
                    f"The user {user.pw_name}, who runs PostgreSQL for root, cannot enter {self.path}: choose a folder"
                    " outside private ones, for example in /var/tmp."
                )

    def _load(self) -> None:
        state: dict[str, Any] = {}
        if (self.path / _STATE).exists():
            state = json.loads((self.path / _STATE).read_text())
        if state.get("seeded"):
            self._check_schema(state["schema"])
            self.settings, self.seeded = state["settings"], state["seeded"]
            return
        # Never ready, so nothing of value is in it.
        for name in _DATA:
            shutil.rmtree(self.path / name, ignore_errors=True)
        self.settings = {name: secrets.token_hex(32) for name in _SECRETS}
        self.save(None)

    def _check_schema(self, made_with: dict[str, str]) -> None:
        """The platform applies later revisions; it cannot change one that was applied."""
        ours = _schema()
        if any(ours.get(revision) != applied for revision, applied in made_with.items()):
            raise ChildFailed(
                f"{self.path} has the schema of another version of Openbell, which this one cannot migrate. Go on with"
                f" that version, or start anew: mv {self.path} {self.path}.old"
            )


def _schema() -> dict[str, str]:
    """A hash of the SQL of each revision; development versions change revisions in place."""
    folder = Path(migrations.__path__[0])
    files = {path.stem: [path] for path in sorted((folder / "versions").glob("0*.sql"))}
    files["0001_baseline"] = sorted((folder / "baseline").glob("*.sql"))
    files["paper"] = [Path(paper.__path__[0], "schema.sql")]
    return {
        revision: hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
        for revision, paths in files.items()
    }
