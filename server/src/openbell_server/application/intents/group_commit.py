"""Group commit: commands that wait at the same time are accepted in one transaction.

A batch starts as soon as a batch slot is free; a command is never delayed to fill one. Commands of an account whose
lock was not free run alone for a while, so that other accounts do not wait for that lock.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from typing import Final

from openbell_server.application.ports.accept_step import Acceptance, Submission
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.orders.intents import CancelIntent

# Under load two are in use; the others are for when those are stuck.
BATCH_SLOTS: Final = 4
SET_MAX: Final = 64
# With fewer waiting commands, one larger batch later is faster than a second batch now.
SECOND_SLOT_FROM: Final = 32
# A batch that runs longer may be stuck; the next batch does not wait for it.
LATE_SECONDS = 0.1
WAITING_MAX: Final = 1024
# Cancels are accepted first and refused last.
CANCELS_WAITING_MAX: Final = 8192
APART_SECONDS: Final = 5.0
APART_MAX: Final = 1024

AcceptSet = Callable[[Sequence[Submission]], Awaitable[list[Acceptance]]]
_Waiting = tuple[Submission, asyncio.Future[Acceptance]]


class GroupCommit:
    """Accepts commands in batches.

    After a doubtful error it is unknown whether a batch was written; after a blocked one, it was not.
    """

    def __init__(
        self,
        batch: AcceptSet,
        alone: AcceptSet,
        doubtful: tuple[type[Exception], ...],
        blocked: tuple[type[Exception], ...],
        monotonic: Callable[[], float],
        is_behind: Callable[[OrganizationId | AccountId], bool] = lambda _: False,
    ) -> None:
        self._batch = batch
        self._alone = alone
        self._doubtful = doubtful
        self._blocked = blocked
        self._monotonic = monotonic
        # Whether too many commands wait for executors, for one more of this organization or account.
        self._is_behind = is_behind
        self._cancels: deque[_Waiting] = deque()
        self._others: deque[_Waiting] = deque()
        # The start time of each running batch.
        self._busy: dict[asyncio.Task[None], float] = {}
        self._looks_again: asyncio.TimerHandle | None = None
        self._trying_again: set[asyncio.Task[None]] = set()
        self._is_called = False
        # Until when the commands of an account run alone.
        self._apart: dict[AccountId, float] = {}

    def is_crowded(self, asking: OrganizationId | AccountId) -> bool:
        """Whether a command that is no cancel must be refused: too many wait to be accepted, or to be executed."""
        return len(self._others) >= WAITING_MAX or self._is_behind(asking)

    def require_room(self, organization_id: OrganizationId, *, cancels: bool) -> None:
        """Raises Problem if commands are refused."""
        if len(self._cancels) >= CANCELS_WAITING_MAX if cancels else self.is_crowded(organization_id):
            raise overload()

    async def __call__(self, submission: Submission) -> Acceptance:
        """The result of the accept step; an error of another command in the batch does not affect this one."""
        if self._is_apart(submission.account.id):
            return (await self._alone([submission]))[0]
        cancels = isinstance(submission.command, CancelIntent)
        self.require_room(submission.account.organization_id, cancels=cancels)
        answer: asyncio.Future[Acceptance] = asyncio.get_running_loop().create_future()
        (self._cancels if cancels else self._others).append((submission, answer))
        if not self._is_called:
            # In the next turn of the event loop, so that the batch holds every command of this turn.
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._begin)
        return await answer

    def _begin(self) -> None:
        self._is_called = False
        while self._cancels or self._others:
            if not self._has_free_slot():
                self._look_again()
                return
            task = asyncio.ensure_future(self._run(self._next_set()))
            self._busy[task] = self._monotonic()
            task.add_done_callback(self._end)

    def _has_free_slot(self) -> bool:
        late = self._monotonic() - LATE_SECONDS
        in_time = sum(begun > late for begun in self._busy.values())
        enough = len(self._cancels) + len(self._others) >= SECOND_SLOT_FROM
        return len(self._busy) < BATCH_SLOTS and (in_time == 0 or (in_time == 1 and enough))

    def _look_again(self) -> None:
        # A batch may be stuck by then, which frees the next slot.
        if self._looks_again is None:
            self._looks_again = asyncio.get_running_loop().call_later(LATE_SECONDS, self._look)

    def _look(self) -> None:
        self._looks_again = None
        self._begin()

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._busy[task]
        self._begin()

    def _next_set(self) -> list[_Waiting]:
        """Cancels first. Of two commands with the same intent or key, the second waits for the next batch."""
        taken: list[_Waiting] = []
        named: set[Hashable] = set()
        for queue in (self._cancels, self._others):
            left: list[_Waiting] = []
            while queue and len(taken) < SET_MAX:
                waiting = queue.popleft()
                names = _names(waiting[0])
                if named.isdisjoint(names):
                    named.update(names)
                    taken.append(waiting)
                else:
                    left.append(waiting)
            queue.extendleft(reversed(left))
        return taken

    async def _run(self, taken: list[_Waiting]) -> None:
        try:
            answers = await self._batch([submission for submission, _ in taken])
        except self._doubtful as error:
            for _, answer in taken:
                _fail(answer, error)
        except Exception as error:  # noqa: BLE001 - each command is tried again alone and gets its own error
            is_blocked, accounts = isinstance(error, self._blocked), {each.account.id for each, _ in taken}
            # In tasks of their own, so that the slot is free at once.
            if is_blocked and len(accounts) > 1:
                self._try_again(self._by_account(taken))
                return
            if is_blocked:
                self._keep_apart(accounts)
            for waiting in taken:
                self._try_again(self._again(*waiting))
        else:
            for (_, answer), acceptance in zip(taken, answers, strict=True):
                if not answer.done():
                    answer.set_result(acceptance)

    def _try_again(self, trying: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(trying)
        self._trying_again.add(task)
        task.add_done_callback(self._trying_again.discard)

    async def _by_account(self, taken: list[_Waiting]) -> None:
        """Accept the commands of each account as a batch of their own: the lock of only one was not free."""
        of_accounts: dict[AccountId, list[_Waiting]] = {}
        for waiting in taken:
            of_accounts.setdefault(waiting[0].account.id, []).append(waiting)
        for waitings in of_accounts.values():
            await self._run(waitings)

    async def _again(self, submission: Submission, answer: asyncio.Future[Acceptance]) -> None:
        try:
            acceptance = (await self._alone([submission]))[0]
        except Exception as error:  # noqa: BLE001 - raised to the caller that waits
            _fail(answer, error)
        else:
            if not answer.done():
                answer.set_result(acceptance)

    def _is_apart(self, account_id: AccountId) -> bool:
        until = self._apart.get(account_id)
        if until is None:
            return False
        if until > self._monotonic():
            return True
        del self._apart[account_id]
        return False

    def _keep_apart(self, account_ids: set[AccountId]) -> None:
        if len(self._apart) + len(account_ids) > APART_MAX:
            self._apart.clear()
        self._apart.update(dict.fromkeys(account_ids, self._monotonic() + APART_SECONDS))


def _names(submission: Submission) -> tuple[Hashable, ...]:
    """The keys that two commands of one batch must not share."""
    account_id, key = submission.account.id, submission.idempotency_key
    return (
        ((account_id, submission.intent_id),)
        if key is None
        else ((account_id, submission.intent_id), (account_id, key))
    )


def _fail(answer: asyncio.Future[Acceptance], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def overload() -> Problem:
    return Problem("overloaded", "more commands wait than can be executed soon; nothing was recorded")
