"""A broker whose decisions depend on the seed and the command alone: no schedule of ours changes what it does."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from openbell_server.application.ports.broker import BrokerReplacement
from openbell_server.domain.orders.broker_reports import ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderType
from simulation.venue import LATENCY_SECONDS, Reply, Venue, VenueOrder, Write, settle

# Seconds between one thing that the market does with an order and the next.
PACE_SECONDS: Final = (0.05, 1.0)


class Way(StrEnum):
    """What becomes of a command when it is sent first; later copies arrive and are answered."""

    ANSWERED = "answered"
    LOST = "lost"
    UNANSWERED = "unanswered"
    UNLISTED = "unlisted"


# Of a hundred.
WAYS: Final = ((Way.LOST, 4), (Way.UNANSWERED, 4), (Way.UNLISTED, 4))
Step = Callable[[VenueOrder], None]


@dataclass(slots=True)
class FatedVenue(Venue):
    """Every choice is drawn from the seed and a client order id; `chance` gives delays only."""

    seed: int = 0
    # How much the market will still do, by the origin of an order.
    due: Counter[str] = field(default_factory=Counter)

    def send(self, write: Write, arrive: Callable[[Reply], None]) -> Reply:
        """Let a command leave on its way."""
        loop = asyncio.get_running_loop()
        reply: Reply = loop.create_future()
        copies = [w for w in self.writes_of(write.order_id) if (w.command, w.command_id) == _name(write)]
        self.writes.setdefault(write.order_id, []).append(write)
        self.note(f"writes {write.command} {write.command_id} of {write.order_id}")
        way = Way.ANSWERED if copies else self.way_of(write.command, write.command_id)
        if way is Way.LOST:
            return reply
        delay = self._within(LATENCY_SECONDS)
        self._later(delay, arrive, reply if way is Way.ANSWERED else loop.create_future())
        if way is Way.UNLISTED:
            self._later(delay + self._within(LATENCY_SECONDS), settle, reply, Unknown("400 E17"))
        return reply

    def way_of(self, command: str, command_id: str) -> Way:
        """The way of the first copy of a command."""
        drawn = self._fate(f"way {command}", command_id).randrange(100)
        for way, share in WAYS:
            if drawn < share:
                return way
            drawn -= share
        return Way.ANSWERED

    def replace(self, order: VenueOrder | None, asked: BrokerReplacement, reply: Reply) -> None:
        """A change has arrived; the rest of the order may fill just before it."""
        fate = self._fate("replace", asked.client_order_id)
        self._fill_before(order, fate)
        known = len(order.replaced_by) if order is not None else 0
        # slots=True makes the class anew, so that super() without arguments would not find it.
        Venue.replace(self, order, asked, reply)
        if order is not None and len(order.replaced_by) > known:
            self._plan(order, self._fills(order, fate, whole=0.4))

    def cancel(self, order: VenueOrder | None, valid_until: datetime, reply: Reply) -> None:
        """A cancel has arrived; the rest may fill just before it, or a part be booked after it."""
        was_working = order is not None and order.status is ReportStatus.WORKING
        fate = self._fate("cancel", order.origin if order is not None else "")
        self._fill_before(order, fate)
        Venue.cancel(self, order, valid_until, reply)
        if order is None or not (was_working and order.was_cancelled):
            return
        rest = int(order.terms.quantity - order.filled)
        if rest > 1 and fate.random() < 0.2:
            # Never all of it: then what is seen first would decide whether the cancel succeeded.
            self._plan(order, [self._booking(Decimal(fate.randint(1, rest - 1)))])

    def _refusal(self, client_id: str, valid_until: datetime) -> str | None:
        code = Venue._refusal(self, client_id, valid_until)
        return code or ("NO_MONEY" if self._fate("refusal", client_id).random() < 0.08 else None)

    def _begin_trading(self, order: VenueOrder) -> None:
        fate = self._fate("market", order.origin)
        self._plan(order, self._fills(order, fate, whole=1.0 if order.order_type is OrderType.MARKET else 0.25))

    def _fills(self, order: VenueOrder, fate: random.Random, *, whole: float) -> list[Step]:
        """Fills of fixed quantities, one after the other; one of them may be taken back or corrected."""
        rest = int(order.terms.quantity - order.filled)
        total = rest if fate.random() < whole else fate.randint(0, rest - 1)
        steps: list[Step] = []
        while total > 0:
            quantity = fate.randint(1, total) if len(steps) < 2 else total
            steps.append(self._booking(Decimal(quantity)))
            total -= quantity
        if steps and fate.random() < 0.08:
            place = len(order.fills)
            steps.append(self._taking_back(place) if fate.random() < 0.5 else self._correcting(place))
        return steps

    def _plan(self, order: VenueOrder, steps: list[Step]) -> None:
        """Take the steps in their order; only the pauses between them are left to chance."""
        self.due[order.origin] += len(steps)
        delay = 0.0
        for step in steps:
            delay += self.chance.uniform(*PACE_SECONDS)
            self._later(delay, self._take, order, step)

    def _take(self, order: VenueOrder, step: Step) -> None:
        step(order)
        self.due[order.origin] -= 1

    def _booking(self, quantity: Decimal) -> Step:
        return lambda order: self._book(order, quantity)

    def _taking_back(self, place: int) -> Step:
        return lambda order: self._change_fill(order, place, busted=True)

    def _correcting(self, place: int) -> Step:
        return lambda order: self._change_fill(order, place, busted=False)

    def _change_fill(self, order: VenueOrder, place: int, *, busted: bool) -> None:
        self._tell_change(order, order.fills[place], busted=busted)

    def _fill_before(self, order: VenueOrder | None, fate: random.Random) -> None:
        if order is not None and order.status is ReportStatus.WORKING and fate.random() < 0.12:
            self._book(order, order.terms.quantity - order.filled)

    def _fate(self, about: str, client_id: str) -> random.Random:
        return random.Random(f"{self.seed}/{about}/{client_id}")


def _name(write: Write) -> tuple[str, str]:
    return write.command, write.command_id
