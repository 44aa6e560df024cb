"""Cancels that the platform asks for because a control says so: recorded, explained and sent as any caller's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import AcceptStatus, Ids, IntentStore, Submission
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.findings import Finding
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, ReceiptId, Symbol, keyed_action_id
from openbell_server.domain.intents import CancelIntent, command_hash
from openbell_server.domain.principals import Principal, PrincipalKind
from openbell_server.domain.receipts import Evaluation, cancel_facts, receipt_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCancel:
    """A cancel that nobody asked for, and why."""

    # Who asks for it, in its record.
    principal_id: str
    intent_id: IntentId
    symbol: Symbol
    seen_at: datetime
    finding: Finding
    # What makes it one cancel, whoever asks and however often; the platform's keys have spaces, which no caller's has.
    cause: str


@dataclass(frozen=True, slots=True)
class CancelByControl:
    """Submits such cancels."""

    intents: IntentStore
    ids: Ids
    hints: Hints
    # Called when an account has something to do.
    then: Callable[[AccountId], None]

    async def __call__(self, account: TradingAccount, cancels: Sequence[ControlCancel]) -> bool:
        """Whether one at least was accepted."""
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
    evaluation = Evaluation(
        command=cancel_facts(cancel.symbol), evaluated_at=cancel.seen_at, findings=[cancel.finding], exempt="CANCEL"
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
