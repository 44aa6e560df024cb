"""Enact halts on the accounts of an executor: put them on record, end what works, and have the broker's word on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from openbell_server.application.ports.execution import BrokerAccount
from openbell_server.application.ports.halts import HaltedOrder, HaltStore
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import AcceptStatus, AccountStore, Ids, IntentStore, Submission
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.control_rules import SwitchState
from openbell_server.domain.findings import Comparison, Finding, Verdict
from openbell_server.domain.identifiers import AccountId, ActionId, OrganizationId, ReceiptId, keyed_action_id
from openbell_server.domain.intents import CancelIntent, command_hash
from openbell_server.domain.principals import Principal, PrincipalKind
from openbell_server.domain.receipts import Evaluation, cancel_facts, receipt_of

# Who asks for these cancels, in the record of every one of them.
PRINCIPAL_ID: Final = "halt"
# Of orders of one account that are cancelled at once; the next sweep finds the rest.
ROUNDS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class EnactHalts:
    """Needs the database only. A door that a switch shuts is shut without it: this ends what passed before."""

    store: HaltStore
    accounts: AccountStore
    intents: IntentStore
    ids: Ids
    hints: Hints
    # Called when an account has something to do, and when it is to be compared with its broker soon.
    then: Callable[[AccountId], None]
    compare: Callable[[BrokerAccount], None]

    async def sweep(self, slots: frozenset[int]) -> None:
        """Do what is due for accounts of these slots; whoever else does so makes no second record or cancel."""
        for account, switch in await self.store.to_lift_across_organizations(slots):
            if await self.store.lift(account, switch):
                self._tell(account)
        for account, switch in await self.store.to_record_across_organizations(slots):
            if await self.store.record(account, switch):
                self._tell(account)
                self.compare(account)
        for account in await self.store.to_cancel_across_organizations(slots):
            await self._cancel_orders(account)
        for account in await self.store.to_compare_across_organizations(slots):
            if not await self.store.note_comparison(account):
                self.compare(account)

    def _tell(self, account: BrokerAccount) -> None:
        """Let followers see it, and the account's worker skip what is queued at once."""
        self.hints.events_were_written([account.account_id])
        self.then(account.account_id)

    async def _cancel_orders(self, where: BrokerAccount) -> None:
        for _ in range(ROUNDS_MAX):
            # The epochs come first: should a switch be lifted meanwhile, the accept step takes no cancel for it.
            account = await self.accounts.find_account(where.organization_id, where.account_id)
            orders = await self.store.orders_to_cancel(where) if account is not None else []
            if account is None or not orders or not await self._cancel(account, orders):
                break

    async def _cancel(self, account: TradingAccount, orders: Sequence[HaltedOrder]) -> bool:
        """Whether one at least was accepted."""
        ids = iter(await self.ids.new_ids(2 * len(orders)))
        submissions = [_submission(account, order, ActionId(next(ids)), ReceiptId(next(ids))) for order in orders]
        accepted = await self.intents.accept_across_organizations(submissions)
        if not any(each.status is AcceptStatus.ACCEPTED for each in accepted):
            return False
        self.hints.outbox_has_rows()
        self.hints.events_were_written([account.id])
        self.then(account.id)
        return True


def _submission(account: TradingAccount, order: HaltedOrder, action_id: ActionId, receipt_id: ReceiptId) -> Submission:
    command, switch = CancelIntent(ref_intent_id=order.intent_id), order.switch
    digest = command_hash(command)
    # No caller can use such a key: theirs have no spaces.
    key = f"{PRINCIPAL_ID} {switch.scope} {switch.subject} {switch.version} {order.intent_id} {order.cancels}"
    finding = Finding(
        code=switch.state,
        scope=switch.scope,
        verdict=Verdict.EXCEEDED,
        comparison=Comparison.EQUALS,
        limit=SwitchState.ACTIVE,
        observed=switch.state,
        control_version=switch.version,
    )
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
