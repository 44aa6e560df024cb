"""Runs a whole installation with one command: a front and a back process, each with settings of its own.

It restarts a process that ends. It imports little, so that the command starts at once.
"""

import asyncio
import os
import pwd
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from openbell_server.domain.errors import OperatorError
from openbell_server.processes.readiness import notify_ready, receive_readiness
from openbell_server.telemetry.logs import configure_logging

PARTS: Final = ("front", "back")
# Each process needs its own: only the back may read encrypted credentials and has the key to them.
SEPARATE: Final = ("DATABASE_URL", "VAULT_KEY", "OPERATIONS_PORT")
# A process drains within ten seconds; the rest is for the interpreter's exit.
STOP_SECONDS: Final = 13.0
RESTART_SECONDS: Final = 1.0
RESTART_SECONDS_MAX: Final = 30.0
# A process that ran for so long is restarted as quickly as the first time.
STEADY_SECONDS: Final = 60.0
# The exit code of a process whose operator must correct something.
OPERATOR_ERROR: Final = 2


def environment_of(part: str, environment: Mapping[str, str]) -> dict[str, str]:
    """OPENBELL_FRONT_<NAME> and OPENBELL_BACK_<NAME> are a setting of one process, OPENBELL_<NAME> one of both."""
    own, prefixes = _prefix(part), tuple(map(_prefix, PARTS))
    shared = {name: value for name, value in environment.items() if not name.startswith(prefixes)}
    return shared | {
        f"OPENBELL_{name.removeprefix(own)}": value for name, value in environment.items() if name.startswith(own)
    }


def check_settings(environment: Mapping[str, str]) -> None:
    """Raises OperatorError unless each process has its own database login."""
    for name in SEPARATE:
        if environment.get(f"OPENBELL_{name}"):
            raise OperatorError(
                f"OPENBELL_{name} would apply to both processes, and each needs its own: set"
                f" {' and '.join(f'{_prefix(part)}{name}' for part in PARTS)} instead."
            )
    for part in PARTS:
        _user(part, environment)
    urls = {part: environment.get(f"{_prefix(part)}DATABASE_URL", "") for part in PARTS}
    for part, url in urls.items():
        if not url:
            raise OperatorError(
                f"Set {_prefix(part)}DATABASE_URL in the environment, to the database for the login of the {part}:"
                " `openbell-server migrate --logins PREFIX` creates PREFIX_front and PREFIX_back."
            )
    if urls["front"] == urls["back"]:
        raise OperatorError(
            f"{_prefix('front')}DATABASE_URL and {_prefix('back')}DATABASE_URL are the same: each process needs the"
            " login of its own, so that the one that callers reach cannot read encrypted credentials."
        )


def command_of(part: str, environment: Mapping[str, str]) -> list[str]:
    """Ends with this process, even if that is killed, and may have a user of its own."""
    command = ["setpriv", "--pdeathsig=TERM"]
    if user := _user(part, environment):
        command += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [*command, sys.executable, "-m", "openbell_server", part]


def _user(part: str, environment: Mapping[str, str]) -> pwd.struct_passwd | None:
    """The user that the process runs as; None for the user of this process."""
    variable = f"{_prefix(part)}USER"
    name = environment.get(variable)
    if not name:
        return None
    if os.geteuid() != 0:
        raise OperatorError(f"{variable} is set, and only root may start processes of other users: start as root.")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise OperatorError(f"{variable} names a user that does not exist: create it, or remove the setting.") from None


def _prefix(part: str) -> str:
    return f"OPENBELL_{part.upper()}_"


@dataclass(slots=True)
class _Part:
    name: str
    command: list[str]
    environment: Mapping[str, str]
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep_running(self, stopping: asyncio.Event) -> int:
        """Run until stopping is set, and after an unexpected end again; returns the exit code."""
        log, wait = structlog.get_logger(), RESTART_SECONDS
        with receive_readiness(self.name, self.ready.set) as address:
            while True:
                began = time.monotonic()
                status = await self._run(address, stopping)
                if stopping.is_set() or (status == OPERATOR_ERROR and not self.ready.is_set()):
                    return status
                wait = RESTART_SECONDS if time.monotonic() - began > STEADY_SECONDS else wait
                log.error("process_ended", process=self.name, status=status, restarted_after_seconds=wait)
                if await _is_set_within(stopping, wait):
                    return status
                wait = min(2 * wait, RESTART_SECONDS_MAX)

    async def _run(self, address: str, stopping: asyncio.Event) -> int:
        # In a session of its own, so that Ctrl-C reaches only this one.
        process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=asyncio.subprocess.DEVNULL,
            env={**self.environment, "NOTIFY_SOCKET": address},
            start_new_session=True,
        )
        ended, stopped = asyncio.ensure_future(process.wait()), asyncio.ensure_future(stopping.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ended.done():
            process.terminate()
            await asyncio.wait({ended}, timeout=STOP_SECONDS)
            if not ended.done():
                process.kill()
        status = await ended
        # A process that was still starting ends by the signal itself.
        return 0 if stopping.is_set() and status == -signal.SIGTERM else status


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _supervise(parts: list[_Part]) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    keeping = [asyncio.ensure_future(part.keep_running(stopping)) for part in parts]
    announcing = asyncio.ensure_future(_announce(parts))
    # Each runs until the end, or one has settings that an operator must correct.
    await asyncio.wait(keeping, return_when=asyncio.FIRST_COMPLETED)
    stopping.set()
    announcing.cancel()
    return max(map(abs, await asyncio.gather(*keeping)))


async def _announce(parts: list[_Part]) -> None:
    for part in parts:
        await part.ready.wait()
    notify_ready()
    structlog.get_logger().info("ready", processes=[part.name for part in parts])


def run(environment: Mapping[str, str]) -> int:
    """Run both processes until a stop signal; returns the exit code."""
    check_settings(environment)
    configure_logging("all", environment.get("OPENBELL_LOG_LEVEL", "INFO"))
    parts = [_Part(name, command_of(name, environment), environment_of(name, environment)) for name in PARTS]
    return asyncio.run(_supervise(parts))
