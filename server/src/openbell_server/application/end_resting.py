"""Cancel orders that have worked for longer than the control of their symbol allows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from openbell_server.application.ports.controls import RestingOrder, RestingStore
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import AcceptStatus, AccountStore, Ids, IntentStore, Submission
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.controls import resting_finding
from openbell_server.domain.identifiers import AccountId, ActionId, OrganizationId, ReceiptId, keyed_action_id
from openbell_server.domain.intents import CancelIntent, command_hash
from openbell_server.domain.principals import Principal, PrincipalKind
from openbell_server.domain.receipts import Evaluation, cancel_facts, receipt_of

# Who asks for these cancels, in the record of every one of them.
PRINCIPAL_ID: Final = "max_resting_millis"


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

    async def sweep(self, slots: frozenset[int]) -> None:
        """Cancel what has rested too long on accounts of these slots; whoever else does so makes no second cancel."""
        for organization_id, account_id in await self.store.accounts_resting_across_organizations(slots):
            orders = await self.store.resting_too_long(organization_id, account_id)
            account = await self.accounts.find_account(organization_id, account_id) if orders else None
            if account is not None:
                await self._cancel(account, orders)

    async def _cancel(self, account: TradingAccount, orders: Sequence[RestingOrder]) -> None:
        ids = iter(await self.ids.new_ids(2 * len(orders)))
        submissions = [_submission(account, order, ActionId(next(ids)), ReceiptId(next(ids))) for order in orders]
        accepted = await self.intents.accept_across_organizations(submissions)
        if any(each.status is AcceptStatus.ACCEPTED for each in accepted):
            self.hints.outbox_has_rows()
            self.hints.events_were_written([account.id])
            self.then(account.id)


def _submission(account: TradingAccount, order: RestingOrder, action_id: ActionId, receipt_id: ReceiptId) -> Submission:
    command = CancelIntent(ref_intent_id=order.intent_id)
    digest = command_hash(command)
    # No caller can use such a key: theirs have no spaces.
    key = f"{PRINCIPAL_ID} {order.intent_id} {order.cancels}"
    finding = resting_finding(order.max_resting_millis, order.rested_millis, order.control_version)
    evaluation = Evaluation(
        command=cancel_facts(order.symbol), evaluated_at=order.seen_at, findings=[finding], exempt="CANCEL"
    )
    return Submission(
        action_id=keyed_action_id(action_id, account.id, key, digest),
        intent_id=order.intent_id,
        receipt_id=receipt_id,
        account=account,
        principal=_principal(account.organization_id),
        command=command,
        command_hash=digest,
        idempotency_key=key,
        receipt=receipt_of(account, evaluation),
    )


def _principal(organization_id: OrganizationId) -> Principal:
    return Principal(
        kind=PrincipalKind.SYSTEM,
        id=PRINCIPAL_ID,
        organization_id=organization_id,
        environment=None,
        permissions=frozenset(),
    )
