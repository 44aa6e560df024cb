"""The demo's scenario: which intents are submitted, at what rate, and which processes are killed."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from openbell import AsyncClient, Conflict, Limit, Market
from openbell_server.devtools.child_processes import ChildFailed, log_tail
from openbell_server.devtools.demo.board import Board
from openbell_server.devtools.stack import Stack

ACCOUNTS: Final = 4
FAULTS: Final = (
    "seed=7,accept_then_hang=0.04,hang=0.03,accept_then_reset=0.04,error_500_after_accept=0.03,"
    "cancel_then_hang=0.1,cancel_then_reset=0.1,slow_ms=250,by_terms=1"
)
# The process with relay and executor is killed: seconds until the first kill, and from its recovery to the next.
KILLED: Final = "back"
FIRST_KILL_SECONDS: Final = 1.2
NEXT_KILL_SECONDS: Final = 1.2
PACE_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.1
_POLLS_TO_REST: Final = 300
_POLLS_TO_READY: Final = 300
_SYMBOLS: Final = ("AAPL", "MSFT", "NVDA", "BRK/B")
# Paper prices are from 10 to 500, so a buy at the first price fills at once and one at the second rests.
_MARKETABLE, _AWAY = "1000", "1.00"


@dataclass(frozen=True, slots=True)
class Ask:
    """One intent to submit, and its expected end."""

    key: str
    account_id: str
    symbol: str
    side: str
    spec: Market | Limit
    rests: bool = False
    is_cancelled: bool = False


def plan(accounts: Sequence[str], count: int) -> Iterator[Ask]:
    """Of ten intents eight are market orders, one is a limit that fills, one rests; most resting ones are cancelled."""
    for number in range(count):
        key = f"demo-{number}"
        account, symbol = accounts[number % len(accounts)], _SYMBOLS[number // 3 % len(_SYMBOLS)]
        # Each quantity occurs once, so that the broker's book shows which order is whose. More than a thousand makes
        # two executions at the paper broker.
        quantity = 1 + number + (1000 if number % 25 == 24 else 0)
        if number % 10 == 3:
            yield Ask(key, account, symbol, "BUY", Limit(quantity, price=_MARKETABLE))
        elif number % 10 == 7:
            spec = Limit(quantity, price=_AWAY)
            yield Ask(key, account, symbol, "BUY", spec, rests=True, is_cancelled=number % 50 != 47)
        else:
            yield Ask(key, account, symbol, "SELL" if number % 3 == 2 else "BUY", Market(quantity))


async def ask_for_all(client: AsyncClient, asks: Sequence[Ask], board: Board) -> None:
    """Submit at a constant rate; the client limits every call and its retries."""
    clock = asyncio.get_running_loop().time
    start = clock()
    async with asyncio.TaskGroup() as tasks:
        for number, ask in enumerate(asks):
            await asyncio.sleep(max(0.0, start + number * PACE_SECONDS - clock()))
            tasks.create_task(_ask(client, ask, board))


async def _ask(client: AsyncClient, ask: Ask, board: Board) -> None:
    board.asked += 1
    send = client.buy if ask.side == "BUY" else client.sell
    action = await send(ask.symbol, ask.spec, account_id=ask.account_id, idempotency_key=ask.key)
    board.accepted.add(action.intent_id)
    if ask.rests and not ask.is_cancelled:
        board.resting.add(action.intent_id)
    if ask.is_cancelled:
        await _until_working(board, action.intent_id)
        await _cancel(client, ask, action.intent_id, board)


async def _until_working(board: Board, intent_id: str) -> None:
    """Wait until the order works, for a limited time; cancelling a queued one is valid too."""
    for _ in range(_POLLS_TO_REST):
        await asyncio.sleep(_POLL_SECONDS)
        if intent_id in board.sights and board.sights[intent_id].state == "working":
            return


async def _cancel(client: AsyncClient, ask: Ask, intent_id: str, board: Board) -> None:
    try:
        await client.cancel_intent(intent_id, account_id=ask.account_id, idempotency_key=f"{ask.key}-cancel")
    except Conflict as refusal:
        # The order may have ended before the cancel: rejected, or proven absent.
        board.log(f"cancel of {ask.symbol} refused: {refusal.detail}")


async def kill_again_and_again(stack: Stack, board: Board) -> None:
    """Kill with SIGKILL and restart at once, while intents are submitted."""
    await asyncio.sleep(FIRST_KILL_SECONDS)
    while board.asked < board.intents:
        # Both block the event loop for some milliseconds: a child must be started from the main thread.
        stack.kill(KILLED)
        stack.start(KILLED)
        board.kills += 1
        board.log("executor and relay killed (SIGKILL) and started again", "bold red")
        await _until_ready(stack, KILLED)
        await asyncio.sleep(NEXT_KILL_SECONDS)


async def _until_ready(stack: Stack, process: str) -> None:
    for _ in range(_POLLS_TO_READY):
        await asyncio.sleep(_POLL_SECONDS)
        with contextlib.suppress(ChildFailed):
            stack.wait_ready(process, 0)
            return
    raise ChildFailed(f"{process} did not come back after it was killed:\n{log_tail(stack.log(process))}")
