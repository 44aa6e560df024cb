"""Say what the controls would say of a command, without recording, counting or sending anything."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from openbell_server.application.capability_findings import capability_findings
from openbell_server.application.judge_command import JudgeCommand
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.stores import AccountStore, IntentStore
from openbell_server.application.submit_intent import TRIES_MAX
from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.authorization import Operation, admit_to_account
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.intents import CommandRequest, CreateIntent
from openbell_server.domain.principals import Principal
from openbell_server.domain.receipts import Receipt


@dataclass(frozen=True, slots=True)
class EvaluateCommand:
    """The dry run: the same rules and facts as a submit has, and the same receipt."""

    accounts: AccountStore
    intents: IntentStore
    judge: JudgeCommand
    brokers: Mapping[str, BrokerDefinition]

    async def __call__(
        self, caller: Principal, account_id: AccountId, decode: Callable[[BrokerDefinition], CommandRequest]
    ) -> Receipt:
        """The receipt that a submit would have now; what the broker lacks is in it instead of an answer of its own."""
        account = await self._account(caller, account_id)
        broker = self.brokers[account.broker]
        request = decode(broker)
        lacking = [finding for finding in capability_findings(broker, request.command) if finding.refuses]
        await self._require_intent(account, request)
        for tried in range(TRIES_MAX):
            if tried:
                account = await self._account(caller, account_id)
            receipt = await self.judge(account, caller, request, lacking)
            if receipt is not None:
                return receipt
        raise Problem("concurrent_change", "the rules changed at every one of four tries")

    async def _account(self, caller: Principal, account_id: AccountId) -> TradingAccount:
        account = await self.accounts.find_account(caller.organization_id, account_id)
        if account is None:
            raise Problem("not_found", "there is no such account")
        admit_to_account(caller, Operation.READ_CONTROLS, account)
        return account

    async def _require_intent(self, account: TradingAccount, request: CommandRequest) -> None:
        if isinstance(request.command, CreateIntent):
            return
        order = await self.intents.find_order(account.organization_id, account.id, request.command.ref_intent_id)
        if order is None:
            raise Problem("not_found", "there is no such intent")
