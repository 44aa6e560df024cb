"""A program that imports the platform once and forks one of its processes for each request.

The imports of one process take two to three seconds of CPU, those of all together four.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
from typing import Final

from openbell_server import cli
from openbell_server.cli.processes import PROCESSES

PR_SET_PDEATHSIG: Final = 1
REQUEST_BYTES_MAX: Final = 1 << 20


def serve() -> list[str] | None:
    """Fork until the requests end; returns the arguments of its command in a forked process, and None in this one."""
    requests = socket.socket(fileno=os.dup(0))
    starter = os.getppid()
    for module in ("lifecycle", *PROCESSES):
        importlib.import_module(f"openbell_server.processes.{module}")
    # The garbage collector leaves the imported objects alone, so that the processes go on sharing their memory.
    gc.freeze()
    while request := requests.recv(REQUEST_BYTES_MAX):
        if forked := os.fork():
            os.waitpid(forked, 0)
            continue
        between = os.getpid()
        if os.fork():
            os._exit(0)
        # The starter becomes the parent when the process in between has ended.
        while os.getppid() == between:
            os.sched_yield()
        return _become(json.loads(request), requests, starter)
    return None


def _become(request: dict[str, object], requests: socket.socket, starter: int) -> list[str]:
    """Make this the process that the request describes; returns the arguments of its command."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != starter:
        os._exit(1)
    os.setsid()
    output = os.open(str(request["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in enumerate((nothing, output, output)):
        os.dup2(source, target)
    os.close(output)
    os.close(nothing)
    environment = request["environment"]
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    with contextlib.closing(requests):
        requests.send(str(os.getpid()).encode())
    arguments = request["arguments"]
    assert isinstance(arguments, list)
    return arguments


if __name__ == "__main__":
    words = serve()
    if words is not None:
        sys.argv = ["openbell_server", *words]
        cli.main()
