"""Read receipts: one, those of an intent, refusals page by page, and the chains that prove them."""

from dataclasses import dataclass

from openbell_server.application.paging import bounded, cursors_of, start_of
from openbell_server.application.ports.rules import ChainedAction, ChainHeads, ReceiptStore, StoredReceipt
from openbell_server.application.ports.stores import AccountStore
from openbell_server.application.read_intents import find_readable_account
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId, IntentId, ReceiptId
from openbell_server.domain.principals import Principal


@dataclass(frozen=True, slots=True)
class ReceiptPage:
    """Receipts in their order; the cursors are as of every list."""

    receipts: list[StoredReceipt]
    next_cursor: str | None
    last_cursor: str | None


@dataclass(frozen=True, slots=True)
class ChainPage:
    """Actions in the order of their numbers; the cursors are as of every list."""

    actions: list[ChainedAction]
    next_cursor: str | None
    last_cursor: str | None


@dataclass(frozen=True, slots=True)
class ReadReceipts:
    """The receipts of an account, for whoever may read its intents."""

    accounts: AccountStore
    receipts: ReceiptStore
    cursor_key: bytes

    async def one(self, caller: Principal, account_id: AccountId, receipt_id: ReceiptId) -> StoredReceipt:
        """The receipt with this id."""
        await find_readable_account(self.accounts, caller, account_id)
        found = await self.receipts.find_receipt(caller.organization_id, account_id, receipt_id)
        if found is None:
            raise Problem("not_found", "there is no such receipt")
        return found

    async def of_intent(
        self, caller: Principal, account_id: AccountId, intent_id: IntentId, cursor: str | None, limit: int | None
    ) -> ReceiptPage:
        """Those of an intent's commands."""
        await find_readable_account(self.accounts, caller, account_id)
        scope = f"receipts {caller.organization_id} {account_id} {intent_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.receipts.receipts_of_intent(caller.organization_id, account_id, intent_id, after, rows + 1)
        if not found and after == 0:
            raise Problem("not_found", "there is no such intent")
        places = [receipt.place for receipt in found]
        return ReceiptPage(found[:rows], *cursors_of(self.cursor_key, scope, cursor, places, rows))

    async def refusals(
        self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None
    ) -> ReceiptPage:
        """Refusals of the account, the oldest first."""
        await find_readable_account(self.accounts, caller, account_id)
        scope = f"refusals {caller.organization_id} {account_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.receipts.refusals_after(caller.organization_id, account_id, after, rows + 1)
        numbers = [receipt.refusal_no or 0 for receipt in found]
        return ReceiptPage(found[:rows], *cursors_of(self.cursor_key, scope, cursor, numbers, rows))

    async def heads(self, caller: Principal, account_id: AccountId) -> ChainHeads:
        """Where the chains of the account stand."""
        await find_readable_account(self.accounts, caller, account_id)
        return await self.receipts.chain_heads(caller.organization_id, account_id)

    async def chain(self, caller: Principal, account_id: AccountId, cursor: str | None, limit: int | None) -> ChainPage:
        """Actions of the account with what their chain is made of, the oldest first."""
        await find_readable_account(self.accounts, caller, account_id)
        scope = f"chain {caller.organization_id} {account_id}"
        after, rows = start_of(self.cursor_key, scope, cursor), bounded(limit)
        found = await self.receipts.chained_actions(caller.organization_id, account_id, after, rows + 1)
        numbers = [chained.action.number for chained in found]
        return ChainPage(found[:rows], *cursors_of(self.cursor_key, scope, cursor, numbers, rows))
