"""Which fault plan holds for an account, and what the feed makes of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from openbell_server.brokers.paper.faults import Faults, Oddity
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.wire import FeedLine


class Plans:
    """The plan of an account that asked for one, else the one for all."""

    def __init__(self, ledger: Ledger, everywhere: Faults) -> None:
        """The plan for all holds from now on."""
        self._ledger = ledger
        self._everywhere = everywhere
        self._begun = datetime.now(UTC)

    def of(self, account_id: UUID) -> Faults:
        """The plan that holds for an account."""
        asked = self._ledger.faults.get(account_id)
        return self._everywhere if asked is None else asked.plan

    def retold(self, lines: Sequence[FeedLine]) -> list[FeedLine]:
        """Lines of the feed as the plans would have them: not at all, backwards within an order, or twice."""
        everyone_is_told = not (self._everywhere.mute_ms or self._everywhere.oddities)
        if everyone_is_told and not self._ledger.faults:
            return list(lines)
        now = datetime.now(UTC)
        heard = [line for line in lines if not self._is_mute(line, now)]
        backwards: dict[str, list[FeedLine]] = {}
        for line in heard:
            if self._is_odd(Oddity.REORDER_FILLS, line):
                backwards.setdefault(_order_of(line), []).append(line)
        told: list[FeedLine] = []
        for line in heard:
            turn = backwards[_order_of(line)].pop() if _order_of(line) in backwards else line
            told.append(turn)
            if turn.report is not None and turn.report.executions and self._is_odd(Oddity.DUPLICATE_FILLS, turn):
                told.append(turn)
        return told

    def _is_mute(self, line: FeedLine, now: datetime) -> bool:
        assert line.account_id is not None
        asked = self._ledger.faults.get(line.account_id)
        since = self._begun if asked is None else asked.set_at
        return now < since + timedelta(milliseconds=self.of(line.account_id).mute_ms)

    def _is_odd(self, oddity: Oddity, line: FeedLine) -> bool:
        assert line.account_id is not None
        assert line.report is not None
        order_id = line.report.client_order_id or line.report.broker_order_id
        return self.of(line.account_id).is_odd(oddity, order_id)


def _order_of(line: FeedLine) -> str:
    assert line.report is not None
    return line.report.broker_order_id
