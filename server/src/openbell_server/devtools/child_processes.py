"""Child processes that end with their parent, stop within a deadline, and are identified by id and start time."""

import contextlib
import os
import pwd
import re
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
# Below Linux's range for outgoing connections, so that no other connection takes the port while its server restarts.
_PORTS = range(20_000, 32_000)
_GIVEN: deque[int] = deque()
_GIVEN_MAX = 500


_TAKEN = re.compile("address already in use|failed to bind to address", re.IGNORECASE)


class ChildFailed(Exception):
    """A child process ended or did not become ready in time."""

    @property
    def is_port_taken(self) -> bool:
        """Whether another program took the child's port, according to the end of its log."""
        return bool(_TAKEN.search(str(self)))


@dataclass(frozen=True, slots=True)
class ProcessStamp:
    """A process id with its start time, so that a reused id is not mistaken for the same process."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """None if there is no such process, or only a zombie."""
        facts = _read_stat(pid)
        return None if facts is None else cls(pid, facts[1])

    @property
    def is_running(self) -> bool:
        return ProcessStamp.of(self.pid) == self

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to exactly this process; does nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            # The descriptor pins the process, so that its id cannot be reused between check and signal.
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
    # The name in parentheses may contain anything, also spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else (int(fields[1]), int(fields[19]))


class Child:
    """A child process in its own session, so that Ctrl-C does not reach it; the kernel kills it when we end."""

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
        """A zombie does not count as running."""
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int:
        """Raises TimeoutError."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} still runs after {seconds} s") from None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to this process only, not to its children."""
        self._process.send_signal(number)

    def stop(self, seconds: float, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and, after the deadline, kill it with all its descendants; returns the exit status."""
        self.kill(number)
        try:
            return self.wait(seconds)
        except TimeoutError:
            return self.destroy()

    def destroy(self) -> int:
        """Kill it and all its descendants at once, as a power failure would; returns the exit status."""
        stamp = ProcessStamp.of(self.pid) if self.is_running else None
        offspring = stamp.descendants() if stamp else []
        self.kill()
        for process in offspring:
            process.kill()
        status = self.wait(_KILL_SECONDS)
        wait_until(lambda: not any(process.is_running for process in offspring), _KILL_SECONDS)
        return status

    def log_tail(self) -> str:
        return log_tail(self.log)


def bound_to_us(user: pwd.struct_passwd | None, death_signal: signal.Signals) -> list[str]:
    """Command prefix that ends the process with its parent, and runs it as another user if one is given.

    It uses setpriv instead of a preexec function: a fork in a process with gRPC threads can deadlock, and the kernel
    clears the parent-death signal when the user changes, which setpriv does first.
    """
    command = ["setpriv", f"--pdeathsig={death_signal.name.removeprefix('SIG')}"]
    if user is not None and user.pw_uid != os.geteuid():
        command += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return command


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses and that no other process of ours has reserved."""
    for _ in range(100):
        # Not `random`: every test worker seeds it alike and would choose the same port.
        port = secrets.choice(_PORTS)
        if reserve_port(port):
            return port
    raise ChildFailed("found no free port on 127.0.0.1 in a hundred tries")


def reserve_port(port: int) -> bool:
    """Whether nobody uses this port of 127.0.0.1 and no other process of ours has reserved it; it is reserved then."""
    # The abstract socket reserves the port until this process ends, because its server starts later and may restart.
    given = socket.socket(socket.AF_UNIX)
    with socket.socket() as probe:
        # As servers do: connections that were closed a moment ago do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            given.bind(f"\0openbell/port/{port}")
            probe.bind(("127.0.0.1", port))
        except OSError:
            given.close()
            return False
    # Stays open until this process ends, or until _GIVEN_MAX newer ones exist.
    _GIVEN.append(given.detach())
    if len(_GIVEN) > _GIVEN_MAX:
        os.close(_GIVEN.popleft())
    return True


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; False at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def log_tail(log: Path, lines: int = 15) -> str:
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"
