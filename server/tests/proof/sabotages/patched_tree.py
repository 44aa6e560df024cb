"""A copy of the server's source and a database, with one fault at a time in them, and servers to run tests on both."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import asyncpg

from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.local_services import LocalServices
from proof.sabotages.fault import MIGRATIONS, ROOT, SOURCE, TESTS, Fault, SourceFault

# Without plugins that these tests do not use, and with a limit of seconds for a test that a fault makes hang.
OPTIONS: Final = (
    *("-q", "--tb=short", "-rf", "--timeout=120", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin"),
)
SQL_SECONDS: Final = 60
TESTS_FAILED: Final = 1
# Tests clone their databases from the template, which is a clone itself: of the schema without a fault.
TEMPLATE: Final = "openbell_template"
SOUND: Final = "openbell_sound"
_FAILED: Final = re.compile(r"^FAILED (?:server/tests/)?([^\s\[]+)", re.MULTILINE)


class DoesNotApply(Exception):
    """The database rejected the statement of a fault."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pytest process ended."""

    returncode: int
    output: str

    @property
    def failed(self) -> list[str]:
        """The tests that failed; an import or a fixture that breaks proves nothing."""
        return _FAILED.findall(self.output) if self.returncode == TESTS_FAILED else []


class PatchedTree:
    """One worker's copy; its path stays the same for all faults, so that bytecode is compiled once."""

    def __init__(self, folder: Path, services: LocalServices) -> None:
        self._folder = folder
        self._services = services
        # Bytecode is matched by seconds and size: every patch has a second of its own.
        self._mtimes = count(int(time.time()))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        self._administer(f"create database {SOUND}")
        migrate(services.postgres.url(SOUND))
        self._restore_template()
        self._pytest = subprocess.Popen(
            [sys.executable, "-m", "proof.sabotages.pytest_server"],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process that runs tests."""
        self._pytest.communicate()

    @contextlib.contextmanager
    def patched(self, fault: Fault) -> Iterator[None]:
        """The copy with a fault in it; afterwards it is as it was. Raises DoesNotApply."""
        if isinstance(fault, SourceFault):
            with self._patched_source(fault):
                yield
            return
        try:
            self._administer(fault.sql, TEMPLATE)
            yield
        except asyncpg.PostgresError as error:
            raise DoesNotApply(f"fault {fault.name!r} no longer applies: {error}") from error
        finally:
            self._restore_template()

    @contextlib.contextmanager
    def _patched_source(self, fault: SourceFault) -> Iterator[None]:
        original, copy = (tree / "openbell_server" / fault.file for tree in (SOURCE, self._folder))
        mtime = next(self._mtimes)
        copy.write_text(copy.read_text().replace(fault.old, fault.new))
        os.utime(copy, (mtime, mtime))
        is_schema = fault.file.startswith(MIGRATIONS)
        if is_schema:
            # The first test that needs it migrates one with the fault.
            self._administer(f"drop database {TEMPLATE} with (force)")
        try:
            yield
        finally:
            shutil.copy2(original, copy)
            if is_schema:
                self._restore_template()

    def run(self, tests: Collection[str], *options: str) -> Outcome:
        """Run tests against the copy."""
        server = self._pytest
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps([*OPTIONS, *options, *(str(TESTS / each) for each in tests)]) + "\n")
        server.stdin.flush()
        return Outcome(*json.loads(server.stdout.readline()))

    def _environment(self) -> dict[str, str]:
        servers = self._services
        started = (servers.folder, servers.postgres.port, servers.nats.port, servers.nats.password)
        return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
            "PYTHONPATH": f"{self._folder}:{TESTS}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "OPENBELL_TEST_SERVICES": " ".join(map(str, started)),
            # Generated examples are the same in every run.
            "CI": "1",
        }

    def _restore_template(self) -> None:
        self._administer(f"drop database if exists {TEMPLATE} with (force)")
        self._administer(f"create database {TEMPLATE} template {SOUND} strategy file_copy")

    def _administer(self, statement: str, database: str = "postgres") -> None:
        async def execute() -> None:
            connection = await asyncpg.connect(self._services.postgres.url(database), timeout=SQL_SECONDS)
            try:
                await connection.execute(statement, timeout=SQL_SECONDS)
            finally:
                await connection.close()

        asyncio.run(execute())
