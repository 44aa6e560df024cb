"""Starts the platform's processes by forking one that has imported everything, which saves most of their start."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from openbell_server.devtools.child_processes import Child, ChildFailed, bound_to_us, wait_until
from openbell_server.devtools.stack import Stack, platform_command

PR_SET_CHILD_SUBREAPER: Final = 36
START_SECONDS: Final = 180


class _Forked:
    """A process that we did not start ourselves, but whose parent we are; as much of Popen as Child needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self._status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def wait(self, seconds: float) -> int:
        wait_until(lambda: self.poll() is not None, seconds)
        if self._status is None:
            raise subprocess.TimeoutExpired(str(self.pid), seconds)
        return self._status

    def send_signal(self, number: signal.Signals) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            # Until its status is taken nobody else can have its id.
            if self._status is None:
                os.kill(self.pid, number)


class _ForkServer:
    """The process that forks; it ends with us."""

    def __init__(self) -> None:
        # A process whose parent ends becomes our child, so that we can wait for what the server forks.
        if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1):
            raise OSError("cannot become the parent of orphaned processes")
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(START_SECONDS)
        command = [*bound_to_us(None, signal.SIGKILL), sys.executable, str(Path(__file__).with_name("fork_server.py"))]
        with theirs:
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), start_new_session=True)

    def start(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
        request = {"arguments": arguments, "log": str(log.absolute()), "environment": dict(environment)}
        self._requests.send(json.dumps(request).encode())
        reply = self._requests.recv(64)
        if not reply:
            raise ChildFailed(f"the fork server ended with status {self._process.wait(START_SECONDS)}")
        return int(reply)


_server: _ForkServer | None = None


class ForkedChild(Child):
    """A process of the platform that is forked; any other command is started as usual."""

    def __init__(self, argv: Sequence[str | Path], *, log: Path, **options: Any) -> None:
        command = platform_command("")[:-1]
        if list(argv[: len(command)]) != command:
            super().__init__(argv, log=log, **options)
            return
        global _server
        _server = _server or _ForkServer()
        self.log = log
        arguments = [str(word) for word in argv[len(command) :]]
        self.pid = _server.start(arguments, log, options["environment"])
        self._process: Any = _Forked(self.pid)


def fork_platform_processes() -> None:
    """For this process: every stack forks its processes."""
    Stack.child_class = ForkedChild
