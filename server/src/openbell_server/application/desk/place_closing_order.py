"""Place the order that closes a position, for exactly the position that is held."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.check_command import Case, CheckCommand
from openbell_server.application.desk.ports import Closing, DeskWorkStore, PlacingTransaction
from openbell_server.application.intents.capability_checks import require_capability
from openbell_server.application.intents.submit_intent import require_open
from openbell_server.application.ports.accept_step import AcceptStatus, Submission
from openbell_server.application.ports.account_transaction import BrokerAccount
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.ids import Ids
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, ReceiptId, keyed_action_id
from openbell_server.domain.orders.desk_commands import (
    SEND_WITHIN,
    DeskReason,
    End,
    Wait,
    closing_key,
    closing_terms,
    not_yet,
)
from openbell_server.domain.orders.intents import CommandRequest, CreateIntent, command_hash
from openbell_server.domain.orders.order_terms import OrderSpec, OrderType, RouteStrategy

_UNJUDGED = Receipt("PASSED", "{}")


class _TryAgain(Exception):
    """Rules or account changed concurrently; rolls the transaction back."""


@dataclass(frozen=True, slots=True)
class PlaceClosingOrder:
    """Called when all orders of the command are closed."""

    store: DeskWorkStore
    accounts: AccountStore
    check: CheckCommand
    ids: Ids
    brokers: Mapping[str, BrokerDefinition]
    hints: Hints
    # Called with an account that has new work.
    then: Callable[[AccountId], None]

    async def __call__(self, where: BrokerAccount, closing: Closing) -> Wait | End:
        """The next step of the command; Wait if the order was placed, or if the next sweep must try again."""
        account = await self.accounts.find_account(where.organization_id, where.account_id)
        held = await self.store.position(where, closing.symbol)
        if account is None or held.quantity is None:
            return not_yet(DeskReason.POSITION_UNKNOWN, closing.facts.age)
        if held.open_orders:
            return not_yet(DeskReason.OTHER_ORDERS_OPEN, closing.facts.age)
        if held.quantity == 0:
            return End()
        broker = self.brokers[account.broker]
        side, quantity = closing_terms(held.quantity)
        time_in_force = broker.capabilities.default_time_in_force
        spec = OrderSpec(order_type=OrderType.MARKET, quantity=quantity, time_in_force=time_in_force)
        command = CreateIntent(
            symbol=closing.symbol,
            order_side=side,
            route_strategy=RouteStrategy.SMART,
            spec=spec,
            client_reference_id=f"desk_command:{closing.id}",
        )
        try:
            require_open(account, command)
            require_capability(broker, command)
        except Problem as problem:
            return End(DeskReason.ORDER_REFUSED, problem.detail)
        request = CommandRequest(command=command, deadline=held.now + SEND_WITHIN)
        case = await self.check.case(account, closing.principal, request)
        if case is None:
            return Wait(closing.facts.waits_for)
        submission = await self._submission(account, closing, command)
        try:
            return await self._place(submission, case, closing)
        except _TryAgain:
            return Wait(closing.facts.waits_for)

    async def _place(self, submission: Submission, case: Case, closing: Closing) -> Wait | End:
        """Evaluate and accept under the account's lock, if the order closes exactly what is held there."""
        account, command = submission.account, submission.command
        assert isinstance(command, CreateIntent)
        assert case.asked is not None
        question = case.question(account, submission.idempotency_key)
        async with self.store.placing(account, question, closing) as placing:
            counted = placing.counted
            if counted.facts.is_replay or counted.facts.epochs != (account.organization_epoch, account.account_epoch):
                raise _TryAgain
            held = placing.held.quantity
            if (
                placing.held.open_orders
                or not held
                or closing_terms(held) != (command.order_side, command.spec.quantity)
            ):
                raise _TryAgain
            facts = await case.counted_facts(counted, count=True)
            receipt = case.receipt(facts)
            submission = replace(submission, receipt=receipt)
            if receipt.refusals:
                return await _refused(placing, submission)
            accepted = await counted.accept(submission, case.asked.deadline)
            if accepted.status is not AcceptStatus.ACCEPTED:
                raise _TryAgain
            await case.count_value(counted, facts, submission.action_id)
        self.hints.outbox_has_rows()
        self.hints.events_were_written([account.id])
        self.then(account.id)
        return Wait()

    async def _submission(self, account: TradingAccount, closing: Closing, command: CreateIntent) -> Submission:
        new_id, receipt_id, intent_id = await self.ids.new_ids(3)
        digest, key = command_hash(command), closing_key(closing.id)
        return Submission(
            action_id=keyed_action_id(ActionId(new_id), account.id, key, digest),
            intent_id=IntentId(intent_id),
            receipt_id=ReceiptId(receipt_id),
            account=account,
            principal=closing.principal,
            command=command,
            command_hash=digest,
            idempotency_key=key,
            receipt=_UNJUDGED,
        )


async def _refused(placing: PlacingTransaction, submission: Submission) -> Wait | End:
    """Store the receipt, and end the command in the same transaction, so that no later check can accept the order."""
    end = End(DeskReason.ORDER_REFUSED, f"refused by {', '.join(submission.receipt.refusals)}")
    await placing.counted.refuse(submission.receipt_id, submission.receipt)
    await placing.end(end, submission.receipt_id)
    return end
