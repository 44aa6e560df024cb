"""Following an account's log: access is looked at again, however much there is to send, by a clock moved by hand."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from openbell_server.application.follow_events import READ_EVENTS_MAX, WAIT_SECONDS, FollowEvents
from openbell_server.domain.account_events import AccountEvent, EventKind
from openbell_server.domain.accounts import Environment, TradingAccount
from openbell_server.domain.cursors import seal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId
from openbell_server.domain.principals import Principal, PrincipalKind

KEY = b"a secret"
ACCOUNT = TradingAccount(
    id=AccountId(uuid4()),
    organization_id=OrganizationId(uuid4()),
    name="first",
    broker="paper",
    environment=Environment.PAPER,
    slot=0,
    disabled=False,
    organization_disabled=False,
    entitlements=frozenset(),
    organization_epoch=1,
    account_epoch=1,
    now=datetime(2026, 1, 5, tzinfo=UTC),
)
CALLER = Principal(
    kind=PrincipalKind.API_KEY,
    id="key",
    organization_id=ACCOUNT.organization_id,
    environment=Environment.PAPER,
    permissions=frozenset(),
)


@dataclass
class Backlog:
    """An account whose log never ends, and a key that may be revoked."""

    seconds: float = 0.0
    revoked: bool = False

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        return ACCOUNT

    async def head(self, organization_id: OrganizationId, account_id: AccountId) -> int:
        return 0

    async def read_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[AccountEvent]:
        return [
            AccountEvent(
                account_id=account_id,
                number=number,
                kind=EventKind.INTENT_ACTION,
                intent_id=IntentId(uuid4()),
                seq=1,
                body="{}",
                occurred_at=datetime.now(UTC),
            )
            for number in range(after + 1, after + 1 + limit)
        ]

    async def wait(self, account_id: AccountId, seconds: float) -> None:
        raise AssertionError("there is always more")

    async def enter(self) -> Principal:
        if self.revoked:
            raise Problem("unauthenticated", "no valid credential was sent")
        return CALLER


async def test_a_revoked_key_loses_its_stream_however_much_there_is_still_to_send() -> None:
    log = Backlog()
    follow = FollowEvents(log, log, log, KEY, lambda: log.seconds)
    token = seal(KEY, f"events {ACCOUNT.id}", 0)
    frames = follow.subscribe(log.enter, ACCOUNT.id, frozenset(EventKind), token)
    for _ in range(1 + READ_EVENTS_MAX):
        await anext(frames)
    log.revoked = True
    log.seconds += WAIT_SECONDS
    with pytest.raises(Problem, match="no valid credential"):
        await anext(frames)
