"""Pages of an account's log: what is no longer kept is said, also where it goes while a page is read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from openbell_server.application.events.ports import Snapshot
from openbell_server.application.events.read_events import EventFilter, ReadEvents
from openbell_server.domain.access.accounts import Environment, TradingAccount
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.events.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId, OrganizationId

ACCOUNT = AccountId(uuid4())
CALLER = Principal(
    kind=PrincipalKind.API_KEY,
    id="key",
    organization_id=OrganizationId(uuid4()),
    environment=Environment.PAPER,
    permissions=frozenset(),
)
EVERY = EventFilter()


@dataclass
class KeptLog:
    """Events floor + 1 to head; before each read the floor may rise."""

    head: int
    floors: list[int] = field(default_factory=lambda: [0])
    # Without a record of it.
    deleted: frozenset[int] = frozenset()

    def floor(self) -> int:
        return self.floors.pop(0) if len(self.floors) > 1 else self.floors[0]

    async def bounds(self, organization_id: OrganizationId, account_id: AccountId) -> tuple[int, int]:
        return self.floor(), self.head

    async def heads(self, organization_id: OrganizationId, account_ids: Sequence[AccountId]) -> dict[AccountId, int]:
        return dict.fromkeys(account_ids, self.head)

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        first = max(after, self.floor()) + 1
        return [
            AccountEvent(
                account_id=account_id,
                number=number,
                kind=EventKind.ACCOUNT_CHANGED,
                intent_id=None,
                seq=None,
                body="{}",
                occurred_at=datetime.now(UTC),
            )
            for number in range(first, self.head + 1)
            if number not in self.deleted
        ][:limit]

    async def first_since(
        self, organization_id: OrganizationId, account_id: AccountId, moment: datetime, head: int
    ) -> int:
        raise NotImplementedError

    async def snapshot(self, organization_id: OrganizationId, account_id: AccountId) -> Snapshot:
        raise NotImplementedError

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        return None


def reading(log: KeptLog) -> ReadEvents:
    return ReadEvents(log, log, {}, b"a secret")


@pytest.mark.parametrize(("after", "gap", "numbers"), [(2, (3, 5), [6, 7]), (0, (1, 5), [6, 7]), (5, None, [6, 7])])
async def test_asking_below_what_is_kept_says_what_is_missing(
    after: int, gap: tuple[int, int] | None, numbers: list[int]
) -> None:
    page = await reading(KeptLog(7, [5])).page(CALLER, ACCOUNT, after, None, EVERY)
    assert (page.gap and page.gap[:2]) == gap
    assert ([listed.event.number for listed in page.events], page.oldest, page.newest) == (numbers, 6, 7)
    assert page.events[0].previous == 5
    if page.gap is not None:
        behind = await reading(KeptLog(7, [5])).page(CALLER, ACCOUNT, page.gap[2], None, EVERY)
        assert ([listed.event.number for listed in behind.events], behind.gap) == (numbers, None)


async def test_who_names_no_place_begins_with_the_oldest_and_misses_nothing() -> None:
    page = await reading(KeptLog(7, [5])).page(CALLER, ACCOUNT, None, None, EVERY)
    assert ([listed.event.number for listed in page.events], page.gap, page.next_cursor) == ([6, 7], None, None)


async def test_what_is_pruned_after_a_page_began_is_reported_by_that_page() -> None:
    # Kept from 1 on when the page begins, and from 4 on when it is read.
    page = await reading(KeptLog(7, [0, 3])).page(CALLER, ACCOUNT, 0, None, EVERY)
    assert page.gap is not None
    assert page.gap[:2] + page.gap[3:] == (1, 3, "RETENTION")
    assert [(listed.event.number, listed.previous) for listed in page.events] == [(4, 3), (5, 4), (6, 5), (7, 6)]


@pytest.mark.parametrize(
    ("log", "seen"),
    [
        (KeptLog(7, deleted=frozenset({3, 4})), [(3, 4, "DELETED"), 5, 6, 7]),
        (KeptLog(7, deleted=frozenset({4, 6})), [3, (4, 4, "DELETED"), 5, (6, 6, "DELETED"), 7]),
        (KeptLog(7, deleted=frozenset({6, 7})), [3, 4, 5, (6, 7, "DELETED")]),
        (KeptLog(7, [4], deleted=frozenset({5})), [(3, 4, "RETENTION"), (5, 5, "DELETED"), 6, 7]),
    ],
)
async def test_pages_report_events_that_were_deleted_without_pruning_as_gaps(log: KeptLog, seen: list[object]) -> None:
    after: int | str | None = 2
    found: list[object] = []
    for _ in range(7):
        assert after is not None
        page = await reading(log).page(CALLER, ACCOUNT, after, None, EVERY)
        found += [page.gap[:2] + page.gap[3:]] if page.gap else []
        found += [listed.event.number for listed in page.events]
        after = page.next_cursor
        if after is None:
            break
    assert (found, after) == (seen, None)
