"""Chooses an account's fault plan and applies it to the feed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from openbell_exchange.faults import Faults, Oddity
from openbell_server.brokers.paper.ledger import Ledger
from openbell_server.brokers.paper.wire import FeedLine


class Plans:
    """An account's own plan, else the plan of the process."""

    def __init__(self, ledger: Ledger, everywhere: Faults) -> None:
        self._ledger = ledger
        self._everywhere = everywhere
        self._begun = datetime.now(UTC)

    def of(self, account_id: UUID) -> Faults:
        asked = self._ledger.faults.get(account_id)
        return self._everywhere if asked is None else asked.plan

    def distort(self, lines: Sequence[FeedLine]) -> list[FeedLine]:
        """Drop, reverse (within an order) or duplicate lines as the plans require."""
        no_shared_distortion = not (self._everywhere.mute_ms or self._everywhere.oddities)
        if no_shared_distortion and not self._ledger.faults:
            return list(lines)
        now = datetime.now(UTC)
        visible = [line for line in lines if not self._is_muted(line, now)]
        backwards: dict[str, list[FeedLine]] = {}
        for line in visible:
            if self._is_odd(Oddity.REORDER_FILLS, line):
                backwards.setdefault(_order_of(line), []).append(line)
        distorted: list[FeedLine] = []
        for line in visible:
            turn = backwards[_order_of(line)].pop() if _order_of(line) in backwards else line
            distorted.append(turn)
            if turn.report is not None and turn.report.executions and self._is_odd(Oddity.DUPLICATE_FILLS, turn):
                distorted.append(turn)
        return distorted

    def _is_muted(self, line: FeedLine, now: datetime) -> bool:
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
