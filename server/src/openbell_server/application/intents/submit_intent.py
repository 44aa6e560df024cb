"""Submit a command: check the caller and the account, evaluate controls, and run the accept step."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from openbell_server.application.controls.check_command import Case, CheckCommand
from openbell_server.application.controls.ports.symbol_controls import ControlStore
from openbell_server.application.crash_points import crash_point
from openbell_server.application.intents.account_cache import RecentAccounts
from openbell_server.application.intents.capability_checks import require_capability
from openbell_server.application.intents.group_commit import GroupCommit
from openbell_server.application.intents.ports import Execution, IntentStore, RecordedAction
from openbell_server.application.ports.accept_step import Acceptance, AcceptStatus, Submission
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.ids import Ids
from openbell_server.domain.access.accounts import TRADING_LIVE, Environment, TradingAccount
from openbell_server.domain.access.authorization import NOT_OWN_ORDER, Operation, admit_to_account
from openbell_server.domain.access.credentials import NOT_READY
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.symbol_controls import STALE_ORDER
from openbell_server.domain.errors import ControlsRefused, FieldProblem, Problem
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, ReceiptId, keyed_action_id
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.intents import (
    ActionType,
    CancelIntent,
    Command,
    CommandRequest,
    CreateIntent,
    IntentAction,
    command_hash,
    intent_of,
)
from openbell_server.domain.orders.order_aggregate import Order

TRIES_MAX: Final = 4
TRIED_AGAIN: Final = frozenset(
    {AcceptStatus.STALE_CONTROLS, AcceptStatus.SAME_KEY_IN_SET, AcceptStatus.DEFERRED, AcceptStatus.CLOCK_SKEW}
)
# The request is read in parts, so that errors are reported in a fixed order.
ReadKey = Callable[[], str | None]
# Refusals of the accept step, with code, detail and fields for the caller.
_REFUSALS: Final[dict[AcceptStatus, tuple[str, str, tuple[FieldProblem, ...]]]] = {
    AcceptStatus.NOT_FOUND: ("not_found", "there is no such intent", ()),
    AcceptStatus.NOT_OWN: ("permission_denied", NOT_OWN_ORDER, ()),
    AcceptStatus.ORDER_TERMINAL: ("order_terminal", "the order of this intent is already closed", ()),
    AcceptStatus.ORDER_UNKNOWN: ("order_unknown", "it is not known yet whether the order is at the broker", ()),
    AcceptStatus.IMMUTABLE_FIELD: (
        "immutable_field",
        "the order is of another kind",
        (FieldProblem("/command/payload/spec", "immutable", "must be of the order's own kind"),),
    ),
    AcceptStatus.QUANTITY_NOT_ABOVE_FILLED: (
        "quantity_not_above_filled",
        "the order has filled that much already",
        (FieldProblem("/command/payload/spec/quantity", "not_above_filled", "must be above what has filled"),),
    ),
    AcceptStatus.INVALID: ("invalid_command", "the database refused the command; nothing was recorded", ()),
}
Decode = Callable[[BrokerDefinition], Awaitable[CommandRequest]]


# A placeholder until the command is evaluated under the account's lock; a replayed command has its own receipt.
_UNJUDGED: Final = Receipt("PASSED", "{}")


class _TryAgain(Exception):
    """The accept step found a concurrent change; rolls the transaction back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The recorded action and its order; replayed if the command was recorded before."""

    recorded: RecordedAction
    execution: Execution
    replayed: bool


@dataclass(frozen=True, slots=True)
class SubmitIntent:
    accounts: RecentAccounts
    intents: IntentStore
    accept: GroupCommit
    controls: ControlStore
    judge: CheckCommand
    ids: Ids
    brokers: Mapping[str, BrokerDefinition]
    hints: Hints
    # Store errors after which it is unknown whether the command was written.
    doubtful: tuple[type[Exception], ...]
    # Store errors after which a look-up has no result.
    unavailable: tuple[type[Exception], ...]

    async def __call__(self, caller: Principal, account_id: AccountId, decode: Decode, read_key: ReadKey) -> Submitted:
        """Record the command; raises the Problem of the first check that fails."""
        idempotency_key = read_key()
        account = _found(await self.accounts.remember(caller.organization_id, account_id))
        admit_to_account(caller, Operation.SUBMIT_INTENT, account)
        account, request = await self._admit(account, decode)
        for tried in range(TRIES_MAX):
            if tried:
                account = _found(await self.accounts.find_account(caller.organization_id, account_id))
                require_open(account, request.command)
            case = await self.judge.case(account, caller, request)
            if case is None:
                continue
            receipt = _UNJUDGED if case.is_counted else case.receipt()
            if receipt.refusals and not tried:
                # A cached account may only accept, because the accept step checks epochs again. Before refusing,
                # read the account again.
                continue
            submission = await self._submission(caller, account, request.command, idempotency_key, receipt)
            if receipt.refusals:
                return await self._refuse(submission)
            crash_point("api.before_accept")
            try:
                acceptance = await (self._accept_counted if case.is_counted else self._accept)(submission, case)
            except self.doubtful as error:
                return await self._find_out(submission, error)
            crash_point("api.after_accept")
            if acceptance is not None and acceptance.status not in TRIED_AGAIN:
                return await self._answer(submission, acceptance)
        detail = f"rules or account changed during each of {TRIES_MAX} attempts; nothing was recorded"
        raise Problem("concurrent_change", detail)

    async def _accept(self, submission: Submission, _: Case) -> Acceptance:
        return await self.accept(submission)

    async def _accept_counted(self, submission: Submission, case: Case) -> Acceptance | None:
        """Evaluate and accept under the account's lock; None if the rules changed.

        A command that was recorded under the same key before is replayed without evaluation; every other one counts.
        """
        account, asked = submission.account, case.asked
        assert asked is not None
        try:
            async with self.judge.counted.counting(
                account, case.question(account, submission.idempotency_key)
            ) as counted:
                if counted.facts.is_replay:
                    return await counted.accept(submission, None)
                if counted.facts.epochs != (account.organization_epoch, account.account_epoch):
                    return None
                facts = await case.counted_facts(counted, count=True)
                receipt = case.receipt(facts)
                submission = replace(submission, receipt=receipt)
                if not receipt.refusals:
                    accepted = _taken(await counted.accept(submission, asked.deadline))
                    if accepted.status is AcceptStatus.ACCEPTED:
                        await case.count_value(counted, facts, submission.action_id)
                    return accepted
                await counted.refuse(submission.receipt_id, receipt)
        except _TryAgain:
            return None
        raise _refused(submission)

    async def _admit(self, account: TradingAccount, decode: Decode) -> tuple[TradingAccount, CommandRequest]:
        """Decode the body; entitlement and disablement are reported before errors in the body."""
        broker = self.brokers[account.broker]
        request: CommandRequest | None = None
        refusal: Problem | None = None
        try:
            request = await decode(broker)
        except Problem as problem:
            refusal = problem
        command = None if request is None else request.command
        try:
            require_open(account, command)
        except Problem:
            account = _found(await self.accounts.find_account(account.organization_id, account.id))
            require_open(account, command)
        if refusal is not None:
            raise refusal
        assert request is not None
        require_capability(broker, request.command)
        return account, request

    async def _refuse(self, submission: Submission) -> Submitted:
        """Store the receipt and raise, unless the same command was recorded under its key before."""
        where, key = (submission.account.organization_id, submission.account.id), submission.idempotency_key
        if key is not None:
            recorded = await self.intents.find_action_by_key(*where, key, submission.command_hash)
            if recorded is not None:
                execution = await self.intents.find_execution(*where, recorded.action.intent_id)
                assert execution is not None
                return Submitted(recorded=recorded, execution=execution, replayed=True)
        await self.controls.keep_refusal(*where, submission.receipt_id, submission.receipt)
        raise _refused(submission)

    async def _submission(
        self,
        caller: Principal,
        account: TradingAccount,
        command: Command,
        idempotency_key: str | None,
        receipt: Receipt,
    ) -> Submission:
        new_id, receipt_id, intent_id = await self.ids.new_ids(3)
        action_id, digest = ActionId(new_id), command_hash(command)
        if idempotency_key is not None:
            action_id = keyed_action_id(action_id, account.id, idempotency_key, digest)
        return Submission(
            action_id=action_id,
            intent_id=intent_of(command, IntentId(intent_id)),
            receipt_id=ReceiptId(receipt_id),
            account=account,
            principal=caller,
            command=command,
            command_hash=digest,
            idempotency_key=idempotency_key,
            receipt=receipt,
        )

    async def _find_out(self, submission: Submission, error: Exception) -> Submitted:
        """Look up a command whose commit was not confirmed; raises outcome_unknown if it is not found.

        Not finding it proves nothing: the database may still be committing it.
        """
        where = (submission.account.organization_id, submission.account.id)
        key, recorded, execution = submission.idempotency_key, None, None
        try:
            if key is None:
                recorded = await self.intents.find_action_by_id(*where, submission.intent_id, submission.action_id)
            else:
                recorded = await self.intents.find_action_by_key(*where, key, submission.command_hash)
            if recorded is not None:
                execution = await self.intents.find_execution(*where, recorded.action.intent_id)
        except self.unavailable:
            recorded = None
        if recorded is None or execution is None:
            detail = f"the database did not confirm intent {submission.intent_id}; retry with the same key to find out"
            raise Problem("outcome_unknown", detail) from error
        self.hints.work_was_recorded(submission.account.id)
        replayed = recorded.action.id != submission.action_id
        return Submitted(recorded=recorded, execution=execution, replayed=replayed)

    async def _answer(self, submission: Submission, acceptance: Acceptance) -> Submitted:
        refusal = _REFUSALS.get(acceptance.status)
        if refusal is not None:
            raise Problem(*refusal)
        match acceptance.status:
            case AcceptStatus.REPLAYED if acceptance.command_hash != submission.command_hash:
                raise Problem("idempotency_key_reused", "this Idempotency-Key was used for another command")
            case AcceptStatus.ACCEPTED:
                self.hints.work_was_recorded(submission.account.id)
                if isinstance(submission.command, CreateIntent):
                    return _just_created(submission, submission.command, acceptance)
        where = (submission.account.organization_id, submission.account.id, acceptance.intent_id)
        recorded = await self.intents.find_action(*where, acceptance.seq)
        execution = await self.intents.find_execution(*where)
        assert recorded is not None
        assert execution is not None
        return Submitted(recorded=recorded, execution=execution, replayed=acceptance.status is AcceptStatus.REPLAYED)


class UnknownAccount(Problem):
    """The caller's organization has no such account."""


def _found(account: TradingAccount | None) -> TradingAccount:
    if account is None:
        raise UnknownAccount("not_found", "there is no such account")
    return account


def _taken(acceptance: Acceptance) -> Acceptance:
    if acceptance.status in TRIED_AGAIN:
        raise _TryAgain
    return acceptance


def _refused(submission: Submission) -> ControlsRefused:
    codes = submission.receipt.refusals
    # A command that was just submitted has no age yet: STALE_ORDER is about its deadline.
    late = ": the deadline has passed, submit it with a later one" if STALE_ORDER in codes else ""
    detail = f"refused by {', '.join(codes)}{late}; nothing was recorded"
    return ControlsRefused(detail, submission.receipt.shown(submission.receipt_id))


def require_open(account: TradingAccount, command: Command | None) -> None:
    """Raises Problem if the account or its organization may not trade now; a cancel is always allowed."""
    if isinstance(command, CancelIntent):
        return
    if account.environment is Environment.LIVE and TRADING_LIVE not in account.entitlements:
        raise Problem("entitlement_required", f"live accounts need the entitlement {TRADING_LIVE}")
    if account.organization_disabled:
        raise Problem("organization_disabled", "the organization is disabled")
    if account.closed:
        raise Problem("account_closed", "the account is closed and cannot be opened again")
    if account.disabled:
        raise Problem("account_disabled", "the account is disabled")
    if account.credential_status in NOT_READY:
        raise Problem("account_not_ready", f"the account's credential is {account.credential_status}")


def _just_created(submission: Submission, command: CreateIntent, acceptance: Acceptance) -> Submitted:
    # Built from the submission: a CREATE that was just accepted needs no second read.
    assert acceptance.seq is not None
    assert acceptance.number is not None
    spec = command.spec
    action = IntentAction(
        id=submission.action_id,
        intent_id=submission.intent_id,
        account_id=submission.account.id,
        organization_id=submission.account.organization_id,
        number=acceptance.number,
        seq=acceptance.seq,
        action_type=ActionType.CREATE,
        symbol=command.symbol,
        order_side=command.order_side,
        order_type=spec.order_type,
        route_strategy=command.route_strategy,
        quantity=spec.quantity,
        limit_price=spec.limit_price,
        stop_price=spec.stop_price,
        time_in_force=spec.time_in_force,
        client_reference_id=command.client_reference_id,
        principal_type=submission.principal.kind,
        principal_id=submission.principal.id,
        receipt_id=submission.receipt_id,
        created_at=acceptance.created_at,
    )
    recorded = RecordedAction(action=action, state=ActionState.QUEUED, reason=None, dispatched_at=None, settled_at=None)
    execution = Execution(order=Order(terms=spec.terms), unknown=None, updated_at=acceptance.created_at)
    return Submitted(recorded=recorded, execution=execution, replayed=False)
