"""Evaluate a command without recording, counting or sending anything."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.check_command import CheckCommand
from openbell_server.application.intents.capability_checks import capability_findings
from openbell_server.application.intents.ports import IntentStore
from openbell_server.application.intents.submit_intent import TRIES_MAX
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation, require_own_order
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.orders.intents import CommandRequest, CreateIntent


@dataclass(frozen=True, slots=True)
class EvaluateCommand:
    """The dry run: the same rules, facts and receipt as a submit."""

    accounts: AccountStore
    intents: IntentStore
    judge: CheckCommand
    brokers: Mapping[str, BrokerDefinition]

    async def __call__(
        self, caller: Principal, account_id: AccountId, decode: Callable[[BrokerDefinition], CommandRequest]
    ) -> Receipt:
        """The receipt that a submit would get now; it also lists what the broker does not support."""
        account = await find_account(self.accounts, caller, Operation.READ_CONTROLS, account_id)
        broker = self.brokers[account.broker]
        request = decode(broker)
        lacking = [finding for finding in capability_findings(broker, request.command) if finding.refuses]
        await self._require_intent(caller, account, request)
        for tried in range(TRIES_MAX):
            if tried:
                account = await find_account(self.accounts, caller, Operation.READ_CONTROLS, account_id)
            receipt = await self.judge(account, caller, request, lacking)
            if receipt is not None:
                return receipt
        raise Problem("concurrent_change", f"the rules changed during each of {TRIES_MAX} attempts")

    async def _require_intent(self, caller: Principal, account: TradingAccount, request: CommandRequest) -> None:
        if isinstance(request.command, CreateIntent):
            return
        order = await self.intents.find_order(account.organization_id, account.id, request.command.ref_intent_id)
        if order is None:
            raise Problem("not_found", "there is no such intent")
        require_own_order(caller, order.creator)
