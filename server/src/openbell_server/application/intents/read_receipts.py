"""Read receipts, refusals, and the hash chains that prove them."""

from dataclasses import dataclass

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.controls.ports.rules import ChainedAction, ChainHeads, ReceiptStore, StoredReceipt
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId, ReceiptId


@dataclass(frozen=True, slots=True)
class ReadReceipts:
    accounts: AccountStore
    receipts: ReceiptStore
    cursor_key: bytes

    async def one(self, caller: Principal, account_id: AccountId, receipt_id: ReceiptId) -> StoredReceipt:
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        found = await self.receipts.find_receipt(caller.organization_id, account_id, receipt_id)
        if found is None:
            raise Problem("not_found", "there is no such receipt")
        return found

    async def of_intent(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId, cursor: str | None, limit: int | None
    ) -> Page[StoredReceipt]:
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        scope = f"receipts {caller.organization_id} {account_id} {intent_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.receipts.receipts_of_intent(caller.organization_id, account_id, intent_id, after, rows + 1)
        if not found and after == 0:
            raise Problem("not_found", "there is no such intent")
        return page_of(self.cursor_key, scope, cursor, rows, [(receipt.place, receipt) for receipt in found])

    async def refusals(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None
    ) -> Page[StoredReceipt]:
        """The oldest first."""
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        scope = f"refusals {caller.organization_id} {account_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.receipts.refusals_after(caller.organization_id, account_id, after, rows + 1)
        return page_of(self.cursor_key, scope, cursor, rows, [(receipt.refusal_no or 0, receipt) for receipt in found])

    async def chain(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None
    ) -> tuple[ChainHeads | None, Page[ChainedAction]]:
        """Actions with the inputs of their chain, the oldest first; and with the first page the heads of both chains.

        The heads are read before the actions, so the pages have every action up to them.
        """
        await find_account(self.accounts, caller, Operation.READ_INTENTS, account_id)
        scope = f"chain {caller.organization_id} {account_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        heads = await self.receipts.chain_heads(caller.organization_id, account_id) if cursor is None else None
        found = await self.receipts.chained_actions(caller.organization_id, account_id, after, rows + 1)
        numbered = [(chained.action.number, chained) for chained in found]
        return heads, page_of(self.cursor_key, scope, cursor, rows, numbered)
