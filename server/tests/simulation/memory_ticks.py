"""Ticks in memory: what the database's function does, over the locks of all accounts at once."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from openbell_server.application.execution.ports import DoorRequest, DoorTerms, Opened, TickResult, Unit
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import NOT_READY
from openbell_server.domain.controls.symbol_controls import STALE_MILLIS_DEFAULT
from openbell_server.domain.identifiers import AccountId, IntentId, client_order_id
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_aggregate import Certainty, Order, Pending, Standing
from openbell_server.domain.orders.order_terms import exact_total
from openbell_server.domain.orders.positions import PositionCause
from simulation.memory_database import ActionRow, Book, DatabaseAway, Event, MemoryDatabase, Move
from simulation.memory_execution import DATABASE_EPOCH, MemoryAccountTransaction, is_queued


@dataclass(frozen=True, slots=True)
class MemoryTickStore:
    """Implements TickStore."""

    database: MemoryDatabase

    async def door_terms_across_organizations(self, account_ids: Collection[AccountId]) -> dict[AccountId, DoorTerms]:
        """The terms of these accounts."""
        await self.database.trip()
        books = [self.database.books[account_id] for account_id in account_ids if account_id in self.database.books]
        return {
            book.account.account_id: DoorTerms(1, book.epoch, DATABASE_EPOCH, bool(book.controls), book.environment)
            for book in books
        }

    async def write_tick_across_organizations(
        self, slots: Collection[int], units: Sequence[Unit], doors: Sequence[DoorRequest], attempt_id: UUID
    ) -> TickResult:
        """All of it in one transaction."""
        named = [*(unit.account for unit in units), *(request.account for request in doors)]
        accounts = {account.account_id: account for account in named if self._is_held(account, slots)}
        opened = {key: MemoryAccountTransaction(self.database, accounts[key]) for key in sorted(accounts)}
        with contextlib.ExitStack() as ending:
            for transaction in opened.values():
                await transaction.__aenter__()
                ending.callback(transaction.lose)
            written = _write_all(opened, units)
            results = [_open(opened.get(request.account.account_id), request, attempt_id) for request in doors]
            for transaction in opened.values():
                await transaction.statement()
            for transaction in opened.values():
                transaction.check()
            doubt = self.database.commit_doubt()
            if doubt is not False:
                for transaction in opened.values():
                    transaction.commit()
        if doubt is not None:
            raise DatabaseAway("nobody heard the end of the commit")
        await self.database.trip()
        return TickResult(
            at=self.database.clock(),
            written=written,
            opened=[each for found, _ in results for each in found],
            long_way={request.account.account_id: why for request, (_, why) in zip(doors, results, strict=True) if why},
        )

    def _is_held(self, account: BrokerAccount, slots: Collection[int]) -> bool:
        book = self.database.books.get(account.account_id)
        return book is not None and book.account == account and account.slot in slots


def _write_all(transactions: Mapping[AccountId, MemoryAccountTransaction], units: Sequence[Unit]) -> list[bool]:
    """Of several units of an intent, the first may be written."""
    written, intents = [], set[tuple[AccountId, IntentId]]()
    for unit in units:
        account_id, intent = unit.account.account_id, (unit.account.account_id, unit.before.intent_id)
        transaction = transactions.get(account_id)
        written.append(transaction is not None and intent not in intents and _write(transaction, unit))
        intents.add(intent)
    return written


def _write(transaction: MemoryAccountTransaction, unit: Unit) -> bool:
    book, before, after = transaction.book, unit.before, unit.after
    row = book.actions.get(before.action_id)
    remembered = (before.intent_id, before.attempt_id, before.state)
    if unit.account != book.account or row is None or (row.intent_id, row.attempt_id, row.state) != remembered:
        return False
    known = any(fill.execution_id in book.executions for fill in unit.executions)
    if known or book.versions.get(before.intent_id, 1) != unit.version:
        return False
    if after.state is not before.state:
        now = transaction.database.clock()
        transaction.database.note(
            f"tick {client_order_id(before.action_id)} {before.state} → {after.state} {unit.reason}"
        )
        transaction.change(before.action_id, state=after.state, reason=unit.reason)
        transaction.change(before.action_id, settled_at=now if after.state in SETTLED else None)
        if after.state is ActionState.UNKNOWN:
            transaction.change(before.action_id, unknown_since=now)
    if after.order != before.order:
        book.write_order(before.intent_id, after.order)
    book.executions |= {fill.execution_id: (before.intent_id, fill) for fill in unit.executions}
    symbol = after.terms.symbol
    if unit.change is not None:
        if unit.change:
            book.moves.append(Move(symbol, unit.change, PositionCause.EXECUTION))
        book.positions[symbol] = exact_total([book.positions.get(symbol, Decimal(0)), unit.change])
        book.positions_moved_at[symbol] = transaction.database.clock()
    for event in unit.events:
        body = event.body
        if event.position is not None:
            body += f'"{exact_total([book.positions[symbol], event.position]):f}"}}'
        book.events.append(Event(len(book.events) + 1, event.kind, before.intent_id, event.seq, body))
    return True


def _open(
    transaction: MemoryAccountTransaction | None, request: DoorRequest, attempt_id: UUID
) -> tuple[list[Opened], str | None]:
    if transaction is None:
        return [], "NOT_FOUND"
    book = transaction.book
    if request.account != book.account:
        return [], "NOT_FOUND"
    queued = sorted((row for row in book.actions.values() if is_queued(row)), key=lambda row: row.number)
    why = _why_not(book, request, queued)
    if why is not None:
        return [], why
    now, opened = transaction.database.clock(), list[Opened]()
    for row in queued[: request.doors]:
        order = book.orders[row.intent_id]
        if not _is_plain(row, request.terms.environment, now) or not _is_new(order):
            return opened, "NOT_PLAIN"
        transaction.change(row.action_id, state=ActionState.DISPATCHING, attempt_id=attempt_id, send_started_at=now)
        transaction.database.note(f"door {client_order_id(row.action_id)}")
        action = transaction.as_tracked(book.actions[row.action_id])
        opened.append(Opened(request.account.account_id, action, book.versions.get(row.intent_id, 1)))
    return opened, None


def _why_not(book: Book, request: DoorRequest, queued: Sequence[ActionRow]) -> str | None:
    reasons: Iterator[tuple[str, bool]] = iter(
        [
            ("RESTORED", book.hold is not None or request.terms.database_epoch != DATABASE_EPOCH),
            ("OTHER_EPOCH", (1, book.epoch) != (request.terms.organization_epoch, request.terms.account_epoch)),
            ("HALTED", book.halt_code is not None),
            ("DISABLED", book.is_disabled),
            ("NOT_SIGNED_IN", book.credential_version != request.credential_version),
            ("NOT_SIGNED_IN", book.credential_status in NOT_READY),
            ("FORGOTTEN_ORDERS", bool(book.forgotten)),
            ("CANCELS", any(row.action_type is ActionType.CANCEL for row in queued)),
        ]
    )
    return next((reason for reason, is_so in reasons if is_so), None)


def _is_plain(row: ActionRow, environment: Environment, now: datetime) -> bool:
    millis_max = STALE_MILLIS_DEFAULT.get(environment)
    is_fresh = millis_max is None or row.queued_at > now - timedelta(milliseconds=millis_max)
    is_in_time = row.deadline is None or row.deadline > now
    return row.action_type is ActionType.CREATE and is_fresh and is_in_time and not row.principal_revoked


def _is_new(order: Order) -> bool:
    return (order.standing, order.pending, order.certainty) == (Standing.NONE, Pending.NEW, Certainty.CONFIRMED)
