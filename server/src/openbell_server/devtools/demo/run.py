"""Runs the demo: the same orders by a plain client and by Openbell, whose processes are killed; then counts both."""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from rich.console import Console

from openbell import AsyncClient
from openbell_server.devtools.child_processes import ChildFailed, log_tail
from openbell_server.devtools.demo.arms import Arm, count_ours, run_plain_client
from openbell_server.devtools.demo.board import Board
from openbell_server.devtools.demo.ledgers import Comparison, compare
from openbell_server.devtools.demo.picture import save_picture
from openbell_server.devtools.demo.read_ledgers import look, read_books
from openbell_server.devtools.demo.scenario import (
    ACCOUNTS,
    FAULTS,
    ask_for_all,
    kill_again_and_again,
    plan,
)
from openbell_server.devtools.demo.screen import WIDTH, Screen, arms_table, final_screen
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.stack import Stack
from openbell_server.processes.supervisor import PARTS

_LOOK_SECONDS: Final = 0.5
_DRAW_SECONDS: Final = 0.2
# Long enough for a slow or busy machine.
_LONGEST_SECONDS: Final = 180


def run_demo(intents: int, picture: Path, log_folder: Path) -> bool:
    """Run it, save the picture, and return whether both ledgers agree and no order of ours is doubled or lost."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print("Starting PostgreSQL, NATS, the platform and a paper broker that misbehaves …")
    faults = {"OPENBELL_PAPER_FAULTS": FAULTS}
    with LocalPlatform(log_folder, faults, ACCOUNTS, processes=("paper", *PARTS)) as platform:
        console.print(f"A plain client places {intents} orders straight at the broker, with retries …")
        plain = asyncio.run(run_plain_client(platform.paper_url, intents))
        console.print("Openbell gets the same orders and the same faults, and its processes are killed …")
        board = Board(intents)
        comparison, ours = asyncio.run(_perform(platform, board, console))
    arms = (plain, ours)
    console.print(final_screen(board, comparison), "", arms_table(arms), sep="\n")
    save_picture(picture, board, comparison, arms)
    return comparison.agree and not ours.doubled and not ours.lost


async def _perform(platform: LocalPlatform, board: Board, console: Console) -> tuple[Comparison, Arm]:
    accounts = [str(account) for account in platform.seeded.account_ids]
    asks = list(plan(accounts, board.intents))
    settings = platform.client_environment()
    async with AsyncClient(
        settings["OPENBELL_API_KEY"], settings["OPENBELL_URL"], settings["OPENBELL_STREAM"], accounts[0]
    ) as client:
        with Screen(console) as screen, contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_SECONDS), asyncio.TaskGroup() as tasks:
                drawing = tasks.create_task(_draw(platform.stack, board, screen))
                tasks.create_task(ask_for_all(client, asks, board))
                tasks.create_task(kill_again_and_again(platform.stack, board))
                await _watch(client, accounts, board)
                drawing.cancel()
                screen.show(board)
        books = await read_books(client, platform.paper_url, accounts, board.accepted)
        return compare(books), count_ours(asks, books)


async def _watch(client: AsyncClient, accounts: list[str], board: Board) -> None:
    """Poll until every intent has reached its end."""
    while board.settled < board.intents:  # the caller has the deadline
        await look(client, accounts, board)
        await asyncio.sleep(_LOOK_SECONDS)


async def _draw(stack: Stack, board: Board, screen: Screen) -> None:
    while True:  # until cancelled
        for name in stack.watch():
            raise ChildFailed(f"{name} ended unexpectedly:\n{log_tail(stack.log(name))}")
        screen.show(board)
        await asyncio.sleep(_DRAW_SECONDS)
