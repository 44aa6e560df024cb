"""Child processes that die with their parent, are stopped within a deadline, and are never mistaken for another."""

import contextlib
import os
import pwd
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_KILL_SECONDS = 10
# Below the range from which Linux takes the ports of outgoing connections: nobody grabs one while its server restarts.
_PORTS = range(20_000, 32_000)
_GIVEN: deque[int] = deque()
_GIVEN_MAX = 500


class ChildFailed(Exception):
    """A child process ended, or did not become ready, when it was needed."""


@dataclass(frozen=True, slots=True)
class ProcessStamp:
    """A process id with its start time, so that a recycled id is never taken for the same process."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The stamp of a running process; None for a zombie or none at all."""
        facts = _read_stat(pid)
        return None if facts is None else cls(pid, facts[1])

    @property
    def is_running(self) -> bool:
        """Whether this very process still runs."""
        return ProcessStamp.of(self.pid) == self

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to this very process, or to nobody when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            # The descriptor pins the process: between the check and the signal its id cannot pass to another.
            pinned = os.pidfd_open(self.pid)
            try:
                if self.is_running:
                    signal.pidfd_send_signal(pinned, number)
            finally:
                os.close(pinned)

    def descendants(self) -> list[Self]:
        """Running children, their children and so on."""
        facts = {int(entry.name): _read_stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
        found: list[Self] = []
        parents = {self.pid}
        while parents:
            stamps = [type(self)(pid, fact[1]) for pid, fact in facts.items() if fact and fact[0] in parents]
            parents = {stamp.pid for stamp in stamps}
            found += stamps
        return found


def _read_stat(pid: int) -> tuple[int, int] | None:
    """Parent and start time of a process that is not a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in brackets may hold anything, spaces and brackets included.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else (int(fields[1]), int(fields[19]))


class Child:
    """A process that we started: in a session of its own, so that Ctrl-C reaches only us, and dead when we die."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        user: pwd.struct_passwd | None = None,
        death_signal: signal.Signals = signal.SIGKILL,
        folder: Path | None = None,
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Linux sends the parent-death signal when the starting *thread* ends.
            raise RuntimeError("start child processes from the main thread")
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*bound_to_us(user, death_signal), *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int:
        """Wait for its end; raises TimeoutError."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} still runs after {seconds} s") from None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to it alone."""
        self._process.send_signal(number)

    def stop(self, seconds: float, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end and, after the deadline, end it with all that it started."""
        self.kill(number)
        try:
            return self.wait(seconds)
        except TimeoutError:
            return self.destroy()

    def destroy(self) -> int:
        """End it and all that it started at once, as a power failure would."""
        stamp = ProcessStamp.of(self.pid) if self.is_running else None
        offspring = stamp.descendants() if stamp else []
        self.kill()
        for process in offspring:
            process.kill()
        status = self.wait(_KILL_SECONDS)
        wait_until(lambda: not any(process.is_running for process in offspring), _KILL_SECONDS)
        return status

    def log_tail(self) -> str:
        """The last lines that it wrote."""
        return log_tail(self.log)


def bound_to_us(user: pwd.struct_passwd | None, death_signal: signal.Signals) -> list[str]:
    """What to put before a command so that it dies with its parent, and runs as another user if one is given.

    By setpriv and not between fork and exec: a plain fork of a process with threads of gRPC ends badly, and the kernel
    forgets the parent-death signal when the user changes, which setpriv does first.
    """
    command = ["setpriv", f"--pdeathsig={death_signal.name.removeprefix('SIG')}"]
    if user is not None and user.pw_uid != os.geteuid():
        command += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return command


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens, and that no other process of ours was given."""
    for _ in range(100):
        # Not `random`: test runs seed it alike in every worker, which would then pick alike.
        port = secrets.choice(_PORTS)
        # A name that only one may have, for as long as this process lives: what is to listen there starts later, and
        # starts again after a crash.
        given = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                given.bind(f"\0openbell/port/{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                given.close()
                continue
            # Nobody closes it but the end of this process, or many others.
            _GIVEN.append(given.detach())
            if len(_GIVEN) > _GIVEN_MAX:
                os.close(_GIVEN.popleft())
            return port
    raise ChildFailed("found no free port on 127.0.0.1 in a hundred tries")


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; False when the deadline passed first."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def log_tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log file, or a word that there are none."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"
