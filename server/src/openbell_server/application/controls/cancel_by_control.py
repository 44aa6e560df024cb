"""Submit cancels on behalf of a control or a desk command; they are recorded, explained and sent like a caller's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from openbell_server.application.ports.accept_step import AcceptStatus, AcceptStore, Submission
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.ids import Ids
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.findings import Finding
from openbell_server.domain.controls.receipts import Evaluation, cancel_facts, receipt_of
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, ReceiptId, Symbol, keyed_action_id
from openbell_server.domain.orders.intents import CancelIntent, command_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCancel:
    """A cancel that a control or a desk command requires."""

    # Recorded as the principal of the cancel.
    principal_id: str
    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    # Part of the idempotency key, so that a repeat is the same cancel. The key contains a space, which callers' keys
    # cannot, so the two never collide.
    cause: str
    # Of the control that requires it.
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class CancelByControl:
    intents: AcceptStore
    ids: Ids
    hints: Hints
    # Called with an account that has new work.
    then: Callable[[AccountId], None]

    async def __call__(self, account: TradingAccount, cancels: Sequence[ControlCancel]) -> bool:
        """Whether at least one was accepted."""
        if not cancels:
            return False
        ids = iter(await self.ids.new_ids(2 * len(cancels)))
        submissions = [_submission(account, each, ActionId(next(ids)), ReceiptId(next(ids))) for each in cancels]
        accepted = await self.intents.accept_across_organizations(submissions)
        if not any(each.status is AcceptStatus.ACCEPTED for each in accepted):
            return False
        self.hints.outbox_has_rows()
        self.hints.events_were_written([account.id])
        self.then(account.id)
        return True


def _submission(
    account: TradingAccount, cancel: ControlCancel, action_id: ActionId, receipt_id: ReceiptId
) -> Submission:
    command = CancelIntent(ref_intent_id=cancel.intent_id)
    digest, key = command_hash(command), f"{cancel.principal_id} {cancel.cause}"
    findings = [] if cancel.finding is None else [cancel.finding]
    evaluation = Evaluation(
        command=cancel_facts(cancel.symbol), evaluated_at=cancel.seen_at, findings=findings, exempt="CANCEL"
    )
    principal = Principal(
        kind=PrincipalKind.SYSTEM,
        id=cancel.principal_id,
        organization_id=account.organization_id,
        environment=None,
        permissions=frozenset(),
    )
    return Submission(
        action_id=keyed_action_id(action_id, account.id, key, digest),
        intent_id=cancel.intent_id,
        receipt_id=receipt_id,
        account=account,
        principal=principal,
        command=command,
        command_hash=digest,
        idempotency_key=key,
        receipt=receipt_of(account, evaluation),
    )
