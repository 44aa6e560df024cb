"""Runs pytest again and again: each run is a fork of a process that has imported the libraries, but not the server.

A line of input is a JSON list of pytest's arguments. The line of output is a JSON list: pytest's exit code and output.
"""

import importlib
import json
import os
import sys
import tempfile
from typing import Final

import pytest

# What most tests import, directly or by the server; nothing of them starts a thread when it is imported.
LIBRARIES: Final = (
    *("_hypothesis_pytestplugin", "hypothesis", "pytest_asyncio.plugin", "pytest_timeout"),
    *("aiosql", "alembic.command", "asyncpg", "sqlalchemy.ext.asyncio"),
    *("litestar", "litestar.openapi", "litestar.testing", "msgspec", "pydantic_settings", "typer"),
    *("grpc.aio", "httpx", "jwt", "nats", "prometheus_client", "structlog", "uvicorn"),
)


def main() -> None:
    for library in LIBRARIES:
        importlib.import_module(library)
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as output:
            child = os.fork()
            if child == 0:
                for stream in (sys.stdout, sys.stderr):
                    os.dup2(output.fileno(), stream.fileno())
                returncode = pytest.main(json.loads(line))
                sys.stdout.flush()
                os._exit(returncode)
            _, status = os.waitpid(child, 0)
            output.seek(0)
            print(json.dumps([os.waitstatus_to_exitcode(status), output.read()]), flush=True)


if __name__ == "__main__":
    main()
