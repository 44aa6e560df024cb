"""Base class of the local servers."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from openbell_server.devtools.child_processes import Child, ChildFailed, wait_until

_READY_SECONDS = 120
_STOP_SECONDS = 20


class LocalServer:
    """One server process that can be killed and restarted on the same port."""

    # The signal for a clean shutdown.
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, port: int) -> None:
        self.port = port
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self.is_running and self._child else None

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_running

    def stop(self) -> None:
        if self._child:
            self._child.stop(_STOP_SECONDS, self.stop_signal)

    def kill(self) -> None:
        """Kill it at once, as a power failure would."""
        if self._child:
            self._child.destroy()

    def _wait_until_ready(self, name: str, child: Child, is_ready: Callable[[], bool]) -> None:
        self._child = child
        wait_until(lambda: is_ready() or not child.is_running, _READY_SECONDS)
        if not is_ready() or not child.is_running:
            child.destroy()
            raise ChildFailed(f"{name} did not start on port {self.port}:\n{child.log_tail()}")


def find_program(
    variable: str, name: str, candidates: Iterable[Path], is_usable: Callable[[Path], bool], how: str
) -> Path:
    """The place that the variable names, else the first candidate that is usable; `how` is how to install one."""
    if named := os.environ.get(variable):
        if not is_usable(Path(named)):
            raise ChildFailed(f"{variable} is {named}, which is not {name} or newer.")
        return Path(named)
    for candidate in candidates:
        if is_usable(candidate):
            return candidate
    raise ChildFailed(f"No {name} or newer was found: {how}")


def write_private(file: Path, text: str) -> None:
    """Write a file that only this user can read."""
    file.touch(mode=0o600)
    file.chmod(0o600)
    file.write_text(text)


def version_of(program: Path, pattern: str) -> tuple[int, ...]:
    """The version numbers matched in the output of --version; empty if the program does not run."""
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    version = re.search(pattern, answer.stdout)
    return tuple(int(number) for number in version.groups()) if version else ()
