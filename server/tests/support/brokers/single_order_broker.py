"""A broker with one order and nothing else: what happens to it there, and the reports that tell of it."""

from dataclasses import dataclass, field, replace
from decimal import Decimal

from openbell_server.domain.orders.broker_reports import (
    Accepted,
    BrokerExecution,
    ExecutionChange,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
)
from openbell_server.domain.orders.order_terms import Terms
from support.builders.tenant import an_execution

NO_ORDER, TOO_LATE, TOO_LITTLE = Refused("E1", "no such order"), Refused("E2", "ended"), Refused("E3", "has filled")


@dataclass(frozen=True, slots=True)
class Habits:
    """How a broker goes about it."""

    # Every report tells the terms and their version; else only look-ups tell terms.
    tells_versions: bool = True
    # A replaced order has another id.
    mints_ids: bool = False
    # Fills more than it was asked for.
    overfills: bool = False
    # Takes a replace by more of an order that is full; one that tells no versions could not make itself understood.
    reopens_full: bool = False
    # Each report tells all executions, not just its own.
    tells_all: bool = False


@dataclass(slots=True)
class AbstractBroker:
    """The truth about one order, and the feed of reports that nobody has read yet."""

    terms: Terms
    habits: Habits = field(default_factory=Habits)
    version: int = 1
    ids: list[str] = field(default_factory=list)
    executions: dict[str, BrokerExecution] = field(default_factory=dict)
    # As they stand now: quantity and price.
    live: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    changes: dict[str, list[ExecutionChange]] = field(default_factory=dict)
    end: ReportStatus | None = None
    triggered: bool = False
    restated: bool = False
    replaces: int = 0
    feed: list[OrderReport] = field(default_factory=list)

    @property
    def filled(self) -> Decimal:
        return sum((quantity for quantity, _ in self.live.values()), Decimal(0))

    @property
    def value(self) -> Decimal:
        return sum((quantity * price for quantity, price in self.live.values()), Decimal(0))

    @property
    def leaves(self) -> int:
        return int(self.terms.quantity - self.filled)

    @property
    def status(self) -> ReportStatus:
        if self.leaves <= 0 and self.filled:
            return ReportStatus.FILLED
        return self.end or ReportStatus.WORKING

    @property
    def is_working(self) -> bool:
        return bool(self.ids) and self.status is ReportStatus.WORKING

    def look(self) -> OrderReport | None:
        """What a look-up shows: everything."""
        if not self.ids:
            return None
        changes = tuple(change for changes in self.changes.values() for change in changes)
        shown = self._report(tuple(self.executions.values()), changes)
        return replace(shown, terms=self.terms, terms_version=self.version if self.habits.tells_versions else None)

    # Commands.

    def create(self) -> Outcome:
        self.ids.append("b1")
        self._tell()
        return Accepted("b1")

    def replace(self, terms: Terms) -> Outcome:
        if not self.ids:
            return NO_ORDER
        reopens = self.habits.reopens_full and self.end is None and terms.quantity > self.filled
        if not self.is_working and not reopens:
            return TOO_LATE
        if terms.quantity < self.filled:
            return TOO_LITTLE
        self.terms, self.version = terms, self.version + 1
        self.replaces += 1
        if self.habits.mints_ids:
            self.ids.append(f"b{len(self.ids) + 1}")
        self._tell()
        return Accepted(self.ids[-1], self.version if self.habits.tells_versions else None)

    def cancel(self) -> Outcome:
        if not self.ids:
            return NO_ORDER
        if not self.is_working:
            return TOO_LATE
        self.finish(ReportStatus.CANCELED)
        return Accepted(self.ids[-1])

    # What happens by itself.

    def fill(self, quantity: int, price: int) -> None:
        fill = an_execution(len(self.executions) + 1, quantity, price)
        self.executions[fill.execution_id] = fill
        self.live[fill.execution_id] = (fill.quantity, fill.price)
        self._tell((fill,))

    def change(self, execution_id: str, quantity: int, price: int) -> None:
        """Correct an execution, or with quantity 0 take it back for good."""
        told = self.changes.setdefault(execution_id, [])
        change = ExecutionChange(
            execution_id=execution_id, revision=len(told) + 1, quantity=Decimal(quantity), price=Decimal(price)
        )
        told.append(change)
        self.live[execution_id] = (change.quantity, change.price)
        self._tell(changes=(change,))

    def finish(self, end: ReportStatus) -> None:
        self.end = end
        self._tell()

    def restate(self, terms: Terms) -> None:
        self.terms, self.version, self.restated = terms, self.version + 1, True
        self._tell()

    def trigger(self) -> None:
        self.triggered = True
        self._tell()

    def rest_for_the_day(self) -> None:
        self._tell()
        self.feed[-1] = replace(self.feed[-1], status=ReportStatus.DONE_FOR_DAY)

    def changeable(self) -> list[str]:
        return [execution_id for execution_id, (quantity, _) in self.live.items() if quantity]

    def _tell(self, executions: tuple[BrokerExecution, ...] = (), changes: tuple[ExecutionChange, ...] = ()) -> None:
        if self.habits.tells_all:
            executions = tuple(self.executions.values())
            changes = tuple(change for changes in self.changes.values() for change in changes)
        self.feed.append(self._report(executions, changes))

    def _report(self, executions: tuple[BrokerExecution, ...], changes: tuple[ExecutionChange, ...]) -> OrderReport:
        return OrderReport(
            client_order_id="c",
            broker_order_id=self.ids[-1],
            status=self.status,
            filled_quantity=self.filled,
            executions=executions,
            changes=changes,
            triggered=self.triggered,
            terms=self.terms if self.habits.tells_versions else None,
            terms_version=self.version if self.habits.tells_versions else None,
        )
