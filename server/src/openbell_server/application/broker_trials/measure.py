"""Measure by resting orders what a broker does with ids, look-ups, lost answers, replaces and cancels."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from openbell_server.application.broker_trials.subject import ENDED, Measurement, Subject, TrialStopped
from openbell_server.application.ports.broker import LOOK_UP_ERRORS, ReplaceSupport
from openbell_server.domain.orders.broker_guarantees import IdClass, LookUp
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, OrderName, OrderReport, Outcome, Refused
from openbell_server.domain.orders.intents import ActionType

# How long the broker may take for what it does at all.
PATIENCE_SECONDS = 60.0
# How long an order may take to appear that there should not be.
LAG_SECONDS = 3.0
_LOOK_SECONDS: Final = 0.1
_SECOND_ORDERS: Final = {
    IdClass.ENFORCED: "no second order, also after its end",
    IdClass.FOR_A_WHILE: "no second order while it is open",
    IdClass.ECHOED: "a second order with the same id",
    IdClass.NONE: "a second order, and no id is kept",
}
_LOOK_UPS: Final = {
    LookUp.EVERY_ORDER: "every order by our id",
    LookUp.OPEN_ORDERS: "open orders by our id",
    LookUp.BROKER_ID: "by the broker's id only",
}
_REFUSES: Final = frozenset({IdClass.ENFORCED, IdClass.FOR_A_WHILE})


async def measure(subject: Subject, cut_next: Callable[[], None]) -> list[Measurement]:
    """Everything that the account allows. `cut_next` loses the answer of the next command, not the command."""
    trial = Trial(subject, cut_next)
    feed = asyncio.ensure_future(trial.read_feed())
    try:
        if await trial.until(trial.is_connected) is None:
            raise TrialStopped(f"The broker's feed did not connect within {PATIENCE_SECONDS:g} s.")
        return [
            await trial.feed(),
            *await trial.ids_and_look_ups(),
            *await trial.lost_answers(),
            *await trial.replaces(),
            *await trial.extras(),
        ]
    finally:
        feed.cancel()
        await asyncio.gather(feed, return_exceptions=True)


@dataclass(slots=True)
class Trial:
    """The measurements, each with orders of its own."""

    subject: Subject
    cut_next: Callable[[], None]
    # When the feed first reported an order, by each of its ids.
    _reported: dict[str, float] = field(default_factory=dict)

    async def read_feed(self) -> None:
        async for item in self.subject.session.reports():
            if item is not None and item[1] is not None:
                for name in (item[1].client_order_id, item[1].broker_order_id):
                    self._reported.setdefault(name or "", self.subject.monotonic())

    async def is_connected(self) -> bool:
        return self.subject.session.is_connected and not self.subject.session.unheard

    async def feed(self) -> Measurement:
        """Whether the feed reports an order that was answered, and how soon."""
        name = await self._place()
        answered_at, limit = self.subject.monotonic(), self.subject.definition.capabilities.echo_seconds
        names = {name, *self.subject.broker_ids[name]}

        async def is_reported() -> bool:
            return not names.isdisjoint(self._reported)

        documented, taken = f"within {limit:g} s of the answer", await self.until(is_reported)
        await self._end(name)
        if taken is None:
            return _compared("feed", documented, "no report")
        reported_at = min(self._reported[each] for each in names if each in self._reported)
        late = reported_at - answered_at
        evidence = f"{abs(late):.3f} s {'before' if late < 0 else 'after'} the answer"
        return _compared("feed", documented, documented if late <= limit else "later", evidence)

    async def ids_and_look_ups(self) -> list[Measurement]:
        """Send an id again while its order is open and after it ended, and look for the order then."""
        able = self.subject.definition.capabilities
        name = await self._place()
        while_open, again_open = await self._send_again(name)
        await self._end_all()
        name = await self._place()
        is_found = await self._is_found(name)
        await self._end(name)
        again_cancel = await self.subject.cancel(self.subject.name_of(name))
        ended_found = await self._is_found(name)
        echo = (await self._report(name)).client_order_id == name
        after_end, again_ended = await self._send_again(name)
        await self._end_all()
        look_up = LookUp.BROKER_ID
        if is_found:
            look_up = LookUp.EVERY_ORDER if ended_found else LookUp.OPEN_ORDERS
        return [
            _compared(
                "id of an order, sent again",
                _SECOND_ORDERS[able.id_classes.get(ActionType.CREATE, IdClass.NONE)],
                _SECOND_ORDERS[_id_class(while_open=while_open, after_end=after_end, echo=echo)],
                f"sent again while open: {_in_short(again_open)}; after its end: {_in_short(again_ended)}",
            ),
            _compared("look-up", _LOOK_UPS[able.look_up], _LOOK_UPS[look_up]),
            Measurement(name="second cancel of an ended order", measured=_in_short(again_cancel)),
        ]

    async def lost_answers(self) -> list[Measurement]:
        """Lose the answer of an order, then that of its cancel."""
        limit, before = self.subject.definition.capabilities.settle_seconds, await self._listed()
        name, begun = self.subject.new_name(), self.subject.monotonic()
        self.cut_next()
        outcome = await self.subject.submit(name)
        await self._grows(len(before), PATIENCE_SECONDS)
        taken = self.subject.monotonic() - begun
        await asyncio.sleep(LAG_SECONDS)
        known = {each.broker_order_id for each in before}
        new = [each for each in await self._listed() if each.broker_order_id not in known]
        order = _compared("order without an answer", "one order", _counted(len(new)), _in_short(outcome))
        if len(new) != 1:
            await self._end_all()
            return [order]
        self.subject.broker_ids[name] = (new[0].broker_order_id,)
        self.cut_next()
        cancelled = await self.subject.cancel(self.subject.name_of(name))
        ended = await self.until(lambda: self._has_ended(name))
        documented = f"within {limit:g} s"
        return [
            order,
            _compared(
                "order without an answer is found",
                documented,
                documented if taken <= limit else "later",
                f"{taken:.3f} s",
            ),
            _compared(
                "cancel without an answer", "done", "done" if ended is not None else "not done", _in_short(cancelled)
            ),
        ]

    async def replaces(self) -> list[Measurement]:
        able, (_, second, third) = self.subject.definition.capabilities, self.subject.prices
        if able.replace is ReplaceSupport.NONE:
            return []
        name, change = await self._place(), self.subject.new_name()
        outcome = await self.subject.replace(name, change, second)
        taken = await self.until(lambda: self._has_price(name, second))
        if taken is None:
            await self._end_all()
            return [_compared("replace", "new terms", "old terms", _in_short(outcome))]
        is_new = isinstance(outcome, Accepted) and outcome.broker_order_id not in self.subject.broker_ids[name]
        again = await self.subject.replace(name, change, third)
        is_done = await self.until(lambda: self._has_price(name, third), LAG_SECONDS) is not None
        await self._end_all()
        refuses = able.id_classes.get(ActionType.REPLACE, IdClass.NONE) in _REFUSES
        return [
            _compared("replace", "new terms", "new terms", f"{_in_short(outcome)}, shown after {taken:.3f} s"),
            Measurement(name="id of a replaced order", measured="another" if is_new else "the same"),
            _compared(
                "id of a replace, sent again",
                "refused" if refuses else "done",
                "done" if is_done else "refused",
                _in_short(again),
            ),
        ]

    async def extras(self) -> list[Measurement]:
        """What only some adapters rely on."""
        able, found = self.subject.definition.capabilities, []
        if able.cancels_by_client_id:
            name = await self._place()
            outcome = await self.subject.cancel(OrderName(client_order_id=name))
            is_done = await self.until(lambda: self._has_ended(name), LAG_SECONDS) is not None
            found.append(_compared("cancel by our id", "done", "done" if is_done else "not done", _in_short(outcome)))
        if able.enforces_valid_until:
            before = len(await self._listed())
            outcome = await self.subject.submit(self.subject.new_name(), seconds=-1)
            is_done = await self._grows(before, LAG_SECONDS)
            found.append(
                _compared("order after its time", "refused", "done" if is_done else "refused", _in_short(outcome))
            )
        await self._end_all()
        return found

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = PATIENCE_SECONDS) -> float | None:
        """After how long it was so, None if not in time. A query that fails is made again."""
        begun = self.subject.monotonic()
        while (taken := self.subject.monotonic() - begun) < seconds:
            try:
                async with asyncio.timeout(seconds):
                    if await condition():
                        return taken
            except LOOK_UP_ERRORS:
                pass
            await asyncio.sleep(_LOOK_SECONDS)
        return None

    async def _place(self) -> str:
        """An order that the broker has and that rests; its name."""
        name = self.subject.new_name()
        outcome = await self.subject.submit(name)
        if not isinstance(outcome, Accepted):
            raise TrialStopped(f"The broker did not accept the order: {_in_short(outcome)}.")
        self.subject.broker_ids[name] = (outcome.broker_order_id,)
        if await self.until(lambda: self._is_listed(name)) is None:
            raise TrialStopped(f"The broker answered {outcome.broker_order_id}, and does not list that order.")
        if (await self._report(name)).status in ENDED:
            raise TrialStopped("An order that shall rest ended at once: choose a price further from the market.")
        return name

    async def _send_again(self, name: str) -> tuple[bool, Outcome]:
        """Whether a second order came of it."""
        before = len(await self._listed())
        outcome = await self.subject.submit(name)
        return await self._grows(before, LAG_SECONDS), outcome

    async def _end(self, name: str) -> None:
        await self.subject.cancel(self.subject.name_of(name))
        if await self.until(lambda: self._has_ended(name)) is None:
            raise TrialStopped(f"The cancelled order did not end within {PATIENCE_SECONDS:g} s.")

    async def _end_all(self) -> None:
        async def is_clean() -> bool:
            left = [each for each in await self._listed() if each.status not in ENDED]
            for each in left:
                await self.subject.cancel_reported(each)
            return not left

        if await self.until(is_clean) is None:
            raise TrialStopped(f"Cancelled orders did not end within {PATIENCE_SECONDS:g} s.")

    async def _is_found(self, name: str) -> bool:
        """By our id alone, where the adapter has such a look-up."""
        if self.subject.definition.capabilities.look_up is LookUp.BROKER_ID:
            return False

        async def is_there() -> bool:
            order = OrderName(client_order_id=name)
            return await self.subject.session.find(self.subject.account_id, order) is not None

        return await self.until(is_there, LAG_SECONDS) is not None

    async def _listed(self) -> list[OrderReport]:
        reports: list[OrderReport] = []

        async def is_read() -> bool:
            reports[:] = await self.subject.listed()
            return True

        if await self.until(is_read) is None:
            raise TrialStopped("The list of orders cannot be read.")
        return reports

    async def _reports(self, name: str) -> list[OrderReport]:
        ids = self.subject.broker_ids[name]
        return [each for each in await self._listed() if each.client_order_id == name or each.broker_order_id in ids]

    async def _report(self, name: str) -> OrderReport:
        return (await self._reports(name))[0]

    async def _is_listed(self, name: str) -> bool:
        return bool(await self._reports(name))

    async def _has_ended(self, name: str) -> bool:
        return (await self._report(name)).status in ENDED

    async def _has_price(self, name: str, price: Decimal) -> bool:
        report = await self.subject.session.find(self.subject.account_id, self.subject.name_of(name))
        return report is not None and report.terms is not None and report.terms.limit_price == price

    async def _grows(self, before: int, seconds: float) -> bool:
        async def is_longer() -> bool:
            return len(await self._listed()) > before

        return await self.until(is_longer, seconds) is not None


def _id_class(*, while_open: bool, after_end: bool, echo: bool) -> IdClass:
    """By whether a second order came of the same id."""
    if while_open:
        return IdClass.ECHOED if echo else IdClass.NONE
    return IdClass.FOR_A_WHILE if after_end else IdClass.ENFORCED


def _compared(name: str, documented: str, measured: str, evidence: str = "") -> Measurement:
    return Measurement(name=name, documented=documented, measured=measured, evidence=evidence)


def _counted(orders: int) -> str:
    return {0: "no order", 1: "one order"}.get(orders, f"{orders} orders")


def _in_short(outcome: Outcome) -> str:
    match outcome:
        case Accepted():
            return "accepted"
        case Refused():
            return f"refused with {outcome.broker_code}: {outcome.broker_text}"
        case NotSent():
            return f"not sent: {outcome.why}"
    return f"unknown: {outcome.why}"
