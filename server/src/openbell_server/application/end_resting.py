"""Cancel orders that the time control of their symbol lets work no longer: too old, or its window closed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from openbell_server.application.ports.calendars import SessionChangeStore
from openbell_server.application.ports.controls import RestingOrder, RestingStore, WorkingOrder
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import AcceptStatus, AccountStore, Ids, IntentStore, Submission
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.control_times import completed, rules_of_symbol, why_closed
from openbell_server.domain.controls import resting_finding
from openbell_server.domain.findings import Finding
from openbell_server.domain.identifiers import (
    AccountId,
    ActionId,
    IntentId,
    OrganizationId,
    ReceiptId,
    Symbol,
    keyed_action_id,
)
from openbell_server.domain.intents import CancelIntent, command_hash
from openbell_server.domain.market_calendars import MarketCalendars, SessionChange
from openbell_server.domain.principals import Principal, PrincipalKind
from openbell_server.domain.receipts import Evaluation, cancel_facts, receipt_of

# Who asks for these cancels, in the record of every one of them.
RESTED: Final = "max_resting_millis"
CLOSED: Final = "on_close"
# After so long, and then after twice as long each time, a cancel that did not end an order is asked for again.
AGAIN_AFTER: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cancel:
    """A cancel that nobody asked for, and why."""

    principal_id: str
    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    cancels: int
    finding: Finding


@dataclass(frozen=True, slots=True)
class EndResting:
    """Submits a cancel as any caller would: recorded, explained by a receipt, sent through the door."""

    store: RestingStore
    accounts: AccountStore
    intents: IntentStore
    ids: Ids
    hints: Hints
    # Called when an account has something to do.
    then: Callable[[AccountId], None]
    calendars: MarketCalendars
    changes: SessionChangeStore

    async def sweep(self, slots: frozenset[int]) -> None:
        """Cancel what may work no longer on accounts of these slots; whoever else does so makes no second cancel."""
        for organization_id, account_id in await self.store.accounts_resting_across_organizations(slots):
            orders = await self.store.resting_too_long(organization_id, account_id)
            account = await self.accounts.find_account(organization_id, account_id) if orders else None
            if account is not None:
                await self._cancel(account, [_rested(order) for order in orders])
        closing = await self.store.accounts_closing_across_organizations(slots)
        changes = await self.changes.session_changes() if closing else ()
        for organization_id, account_id in closing:
            working = await self.store.orders_to_close(organization_id, account_id)
            account = await self.accounts.find_account(organization_id, account_id) if working else None
            if account is not None:
                cancels = [self._closed(account, order, changes) for order in working]
                await self._cancel(account, [cancel for cancel in cancels if cancel is not None])

    def _closed(
        self, account: TradingAccount, order: WorkingOrder, changes: tuple[SessionChange, ...]
    ) -> _Cancel | None:
        if order.cancelled_at is not None and order.seen_at < order.cancelled_at + AGAIN_AFTER * 2 ** min(
            order.cancels - 1, _DOUBLINGS_MAX
        ):
            return None
        rules = rules_of_symbol(account.id, account.timezone, order.symbol, order.control)
        rules = [completed(rule, account.timezone, changes) for rule in rules]
        finding = why_closed(rules, self.calendars, order.seen_at)
        if finding is None:
            return None
        return _Cancel(
            principal_id=CLOSED,
            intent_id=order.intent_id,
            symbol=order.symbol,
            seen_at=order.seen_at,
            cancels=order.cancels,
            finding=finding,
        )

    async def _cancel(self, account: TradingAccount, cancels: Sequence[_Cancel]) -> None:
        if not cancels:
            return
        ids = iter(await self.ids.new_ids(2 * len(cancels)))
        submissions = [_submission(account, each, ActionId(next(ids)), ReceiptId(next(ids))) for each in cancels]
        accepted = await self.intents.accept_across_organizations(submissions)
        if any(each.status is AcceptStatus.ACCEPTED for each in accepted):
            self.hints.outbox_has_rows()
            self.hints.events_were_written([account.id])
            self.then(account.id)


# Of the time between two cancels: more than a day is never waited.
_DOUBLINGS_MAX: Final = 10


def _rested(order: RestingOrder) -> _Cancel:
    return _Cancel(
        principal_id=RESTED,
        intent_id=order.intent_id,
        symbol=order.symbol,
        seen_at=order.seen_at,
        cancels=order.cancels,
        finding=resting_finding(order.max_resting_millis, order.rested_millis, order.control_version),
    )


def _submission(account: TradingAccount, cancel: _Cancel, action_id: ActionId, receipt_id: ReceiptId) -> Submission:
    command = CancelIntent(ref_intent_id=cancel.intent_id)
    digest = command_hash(command)
    # No caller can use such a key: theirs have no spaces.
    key = f"{cancel.principal_id} {cancel.intent_id} {cancel.cancels}"
    evaluation = Evaluation(
        command=cancel_facts(cancel.symbol), evaluated_at=cancel.seen_at, findings=[cancel.finding], exempt="CANCEL"
    )
    return Submission(
        action_id=keyed_action_id(action_id, account.id, key, digest),
        intent_id=cancel.intent_id,
        receipt_id=receipt_id,
        account=account,
        principal=_principal(account.organization_id, cancel.principal_id),
        command=command,
        command_hash=digest,
        idempotency_key=key,
        receipt=receipt_of(account, evaluation),
    )


def _principal(organization_id: OrganizationId, principal_id: str) -> Principal:
    return Principal(
        kind=PrincipalKind.SYSTEM,
        id=principal_id,
        organization_id=organization_id,
        environment=None,
        permissions=frozenset(),
    )
