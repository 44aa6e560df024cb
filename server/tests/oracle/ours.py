"""A script by our own rules, the pure ones that the paper broker's ledger is written by."""

from dataclasses import dataclass, field
from decimal import Decimal

from openbell_exchange.matching import MarketOrder, Match, Quote, after, end, match, replaced
from openbell_server.domain.orders.broker_reports import ReportStatus
from openbell_server.domain.orders.order_terms import TimeInForce
from oracle.scripts import Cancel, Command, Replace, Script, Submit


@dataclass
class Outcome:
    """How an order ended, with every fill."""

    status: str = ReportStatus.WORKING
    fills: list[tuple[Decimal, Decimal]] = field(default_factory=list)


@dataclass
class _Played:
    order: MarketOrder
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def works(self) -> bool:
        return self.outcome.status == ReportStatus.WORKING

    def book(self, matched: Match) -> None:
        self.outcome.fills += [(fill.quantity, fill.price) for fill in matched.fills]
        self.outcome.status = matched.status
        self.order = after(self.order, matched)


def play(script: Script) -> tuple[list[Outcome], list[dict[int, tuple[Command, ...]]]]:
    """What becomes of each order, and the commands that were not refused."""
    outcomes: list[Outcome] = []
    taken: list[dict[int, tuple[Command, ...]]] = []
    for commands in script.orders:
        outcome, accepted = _play_one(script.quotes, commands)
        outcomes.append(outcome)
        taken.append(accepted)
    return outcomes, taken


def _play_one(
    quotes: tuple[Quote | None, ...], commands: dict[int, tuple[Command, ...]]
) -> tuple[Outcome, dict[int, tuple[Command, ...]]]:
    played: _Played | None = None
    accepted: dict[int, list[Command]] = {}
    last = Decimal(0)
    for step, quote in enumerate(quotes):
        if played is not None and played.works:
            if quote is not None:
                played.book(match(played.order, quote))
            elif played.order.spec.time_in_force in {TimeInForce.DAY, TimeInForce.EXT}:
                played.book(end(played.order, last))
        if quote is None:
            continue
        last = quote.price
        for command in commands.get(step, ()):
            if isinstance(command, Submit):
                played = _Played(MarketOrder(side=command.side, spec=command.spec))
                played.book(match(played.order, quote))
            elif played is None or not _obey(played, command, quote):
                continue
            accepted.setdefault(step, []).append(command)
    assert played is not None
    return played.outcome, {step: tuple(each) for step, each in accepted.items()}


def _obey(played: _Played, command: Replace | Cancel, quote: Quote) -> bool:
    if not played.works:
        return False
    if isinstance(command, Cancel):
        played.outcome.status = ReportStatus.CANCELED
        return True
    if command.terms.quantity <= played.order.filled:
        return False
    played.order = replaced(played.order, command.terms)
    played.book(match(played.order, quote))
    return True
