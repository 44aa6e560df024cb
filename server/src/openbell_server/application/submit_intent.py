"""Submit a command: check the caller and the account, evaluate controls, and run the accept step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.application.ports.stores import (
    Acceptance,
    AcceptStatus,
    AccountStore,
    Execution,
    Ids,
    IntentStore,
    RecordedAction,
    Submission,
)
from openbell_server.domain.accounts import TRADING_LIVE, Environment, TradingAccount
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, ReceiptId
from openbell_server.domain.intents import CancelIntent, Command, CreateIntent, command_hash
from openbell_server.domain.principals import INTENT_EDIT, Principal, require, require_environment
from openbell_server.domain.receipts import evaluate

TRIES_MAX: Final = 4
Decode = Callable[[BrokerDefinition], Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What a caller gets: the stored action, how its order stands now, and whether it was there before."""

    recorded: RecordedAction
    execution: Execution
    replayed: bool


@dataclass(frozen=True, slots=True)
class SubmitIntent:
    """The accept path."""

    accounts: AccountStore
    intents: IntentStore
    ids: Ids
    brokers: Mapping[str, BrokerDefinition]
    hints: Hints

    async def __call__(
        self, caller: Principal, account_id: AccountId, decode: Decode, idempotency_key: str | None
    ) -> Submitted:
        """Record the command, or say why not; the first failing check answers."""
        require(caller, INTENT_EDIT)
        account = await self._account(caller, account_id)
        require_environment(caller, account)
        command = self._admit(account, decode)
        for _ in range(TRIES_MAX):
            acceptance = await self._accept(caller, account, command, idempotency_key)
            match acceptance.status:
                case AcceptStatus.STALE_CONTROLS:
                    account = await self._account(caller, account_id)
                case AcceptStatus.SAME_KEY_IN_SET | AcceptStatus.DEFERRED | AcceptStatus.CLOCK_SKEW:
                    continue
                case _:
                    return await self._answer(account, command, acceptance)
        raise Problem("concurrent_change", "the command met a change at every one of four tries; nothing was recorded")

    async def _account(self, caller: Principal, account_id: AccountId) -> TradingAccount:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        return account

    def _admit(self, account: TradingAccount, decode: Decode) -> Command:
        """Decode the body, but let entitlement and disablement answer before what is wrong in it."""
        broker = self.brokers[account.broker]
        command: Command | None = None
        refusal: Problem | None = None
        try:
            command = decode(broker)
        except Problem as problem:
            refusal = problem
        if not isinstance(command, CancelIntent):
            if account.environment is Environment.LIVE and TRADING_LIVE not in account.entitlements:
                raise Problem("entitlement_required", f"live accounts need the entitlement {TRADING_LIVE}")
            if account.organization_disabled:
                raise Problem("organization_disabled", "the organization is disabled")
            if account.disabled:
                raise Problem("account_disabled", "the account is disabled")
        if refusal is not None:
            raise refusal
        assert command is not None
        if isinstance(command, CreateIntent):
            _require_capability(broker, command)
        return command

    async def _accept(
        self, caller: Principal, account: TradingAccount, command: Command, idempotency_key: str | None
    ) -> Acceptance:
        action_id, receipt_id, intent_id = await self.ids.new_ids(3)
        submission = Submission(
            action_id=ActionId(action_id),
            intent_id=command.ref_intent_id if isinstance(command, CancelIntent) else IntentId(intent_id),
            receipt_id=ReceiptId(receipt_id),
            account=account,
            principal=caller,
            command=command,
            command_hash=command_hash(command),
            idempotency_key=idempotency_key,
            receipt=evaluate(account),
        )
        return (await self.intents.accept_across_organizations([submission]))[0]

    async def _answer(self, account: TradingAccount, command: Command, acceptance: Acceptance) -> Submitted:
        match acceptance.status:
            case AcceptStatus.NOT_FOUND:
                raise Problem("not_found", "there is no such intent")
            case AcceptStatus.ORDER_TERMINAL:
                raise Problem("order_terminal", "the order of this intent is already closed")
            case AcceptStatus.INVALID:
                raise Problem("invalid_command", "the database refused the command; nothing was recorded")
            case AcceptStatus.REPLAYED if acceptance.command_hash != command_hash(command):
                raise Problem("idempotency_key_reused", "this Idempotency-Key was used for another command")
            case AcceptStatus.ACCEPTED:
                self.hints.outbox_has_rows()
        where = (account.organization_id, account.id, acceptance.intent_id)
        recorded = await self.intents.find_action(*where, acceptance.seq)
        execution = await self.intents.find_execution(*where)
        assert recorded is not None
        assert execution is not None
        return Submitted(
            recorded=recorded, execution=execution, replayed=acceptance.status is not AcceptStatus.ACCEPTED
        )


def _require_capability(broker: BrokerDefinition, command: CreateIntent) -> None:
    allowed = broker.capabilities
    for what, value, values in (
        ("order kind", command.spec.order_type, allowed.order_types),
        ("time in force", command.spec.time_in_force, allowed.times_in_force),
        ("route strategy", command.route_strategy, allowed.route_strategies),
    ):
        if value not in values:
            raise Problem("not_supported", f"{broker.name} does not support the {what} {value}")
