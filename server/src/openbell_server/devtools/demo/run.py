"""Runs the demo: starts a platform, submits intents, kills processes, and compares both ledgers."""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from rich.console import Console

from openbell import AsyncClient
from openbell_server.devtools.child_processes import ChildFailed, log_tail
from openbell_server.devtools.demo.board import Board
from openbell_server.devtools.demo.ledgers import Comparison, compare
from openbell_server.devtools.demo.picture import save_picture
from openbell_server.devtools.demo.read_ledgers import look, read_books
from openbell_server.devtools.demo.scenario import (
    ACCOUNTS,
    FAULTS,
    KILLS,
    PACE_SECONDS,
    ask_for_all,
    kill_again_and_again,
    plan,
)
from openbell_server.devtools.demo.screen import WIDTH, Screen, final_screen
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.stack import Stack

_LOOK_SECONDS: Final = 0.5
_DRAW_SECONDS: Final = 0.2
# Time after the last submit; intents still in doubt then are shown as unknown with their evidence.
_SETTLE_SECONDS: Final = 16
# Long enough for a slow or busy machine.
_LONGEST_SECONDS: Final = 180


def run_demo(intents: int, picture: Path, log_folder: Path) -> bool:
    """Run it, save the picture, and return whether both ledgers agree."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print("Starting PostgreSQL, NATS, the platform and a paper broker that misbehaves …")
    with LocalPlatform(log_folder, {"OPENBELL_PAPER_FAULTS": FAULTS}, accounts=ACCOUNTS) as platform:
        board = Board(intents)
        comparison = asyncio.run(_perform(platform, board, console))
    console.print(final_screen(board, comparison))
    save_picture(picture, board, comparison)
    return comparison.agree


async def _perform(platform: LocalPlatform, board: Board, console: Console) -> Comparison:
    accounts = [str(account) for account in platform.seeded.account_ids]
    settings = platform.client_environment()
    async with AsyncClient(
        settings["OPENBELL_API_KEY"], settings["OPENBELL_URL"], settings["OPENBELL_STREAM"], accounts[0]
    ) as client:
        with Screen(console) as screen, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_SECONDS), asyncio.TaskGroup() as tasks:
                drawing = tasks.create_task(_draw(platform.stack, board, screen))
                tasks.create_task(ask_for_all(client, list(plan(accounts, board.intents)), board))
                for kills in KILLS:
                    tasks.create_task(kill_again_and_again(platform.stack, board, *kills))
                await _watch(client, accounts, board)
                drawing.cancel()
                screen.show(board)
        return compare(await read_books(client, platform.paper_url, accounts, board.accepted))


async def _watch(client: AsyncClient, accounts: list[str], board: Board) -> None:
    """Poll until every intent has reached its end, or only doubts remain after the settle time."""
    clock = asyncio.get_running_loop().time
    settle_until = clock() + board.intents * PACE_SECONDS + _SETTLE_SECONDS
    while board.settled < board.intents:  # the caller has the deadline
        await look(client, accounts, board)
        if clock() > settle_until and board.settled + len(board.in_doubt) >= board.intents:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _draw(stack: Stack, board: Board, screen: Screen) -> None:
    while True:  # until cancelled
        for name in stack.watch():
            raise ChildFailed(f"{name} ended unexpectedly:\n{log_tail(stack.log(name))}")
        screen.show(board)
        await asyncio.sleep(_DRAW_SECONDS)
