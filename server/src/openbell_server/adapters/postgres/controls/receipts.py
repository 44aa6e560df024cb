"""Reads receipts and the two hash chains of an account."""

from dataclasses import dataclass

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore
from openbell_server.adapters.postgres.intents.intents import intent_action
from openbell_server.application.controls.ports.rules import ChainedAction, ChainHeads, StoredReceipt
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId, ReceiptId

_queries = named_queries.load("receipts")


@dataclass(frozen=True, slots=True)
class PostgresReceiptStore(PostgresStore):
    """Implements ReceiptStore."""

    async def find_receipt(
        self, organization_id: OrganizationId, account_id: AccountId, receipt_id: ReceiptId
    ) -> StoredReceipt | None:
        row = await self._one(_queries.find_receipt, organization_id, account_id, receipt_id=receipt_id)
        return None if row is None else StoredReceipt(**row)

    async def receipts_of_intent(
        self, organization_id: OrganizationId, account_id: AccountId, intent_id: IntentId, after: int, limit: int
    ) -> list[StoredReceipt]:
        rows = await self._rows(
            _queries.receipts_of_intent, organization_id, account_id, intent_id=intent_id, after=after, row_limit=limit
        )
        return [StoredReceipt(**row) for row in rows]

    async def refusals_after(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[StoredReceipt]:
        rows = await self._rows(_queries.refusals_after, organization_id, account_id, after=after, row_limit=limit)
        return [StoredReceipt(**row) for row in rows]

    async def chain_heads(self, organization_id: OrganizationId, account_id: AccountId) -> ChainHeads:
        return ChainHeads(**await self._one(_queries.chain_heads, organization_id, account_id))

    async def chained_actions(
        self, organization_id: OrganizationId, account_id: AccountId, after: int, limit: int
    ) -> list[ChainedAction]:
        rows = await self._rows(_queries.chained_actions, organization_id, account_id, after=after, row_limit=limit)
        return [
            ChainedAction(
                action=intent_action(row),
                chained_from=row["chained_from"],
                hash=row["hash"],
                receipt_text=row["receipt_body"],
                receipt_hash=row["receipt_hash"],
            )
            for row in rows
        ]
