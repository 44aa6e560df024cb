"""Calls about receipts and the chains over them."""

from collections.abc import AsyncIterator

from openbell.async_client.calls import AsyncCalls
from openbell.models import PageOf
from openbell.receipts.records import ChainedAction, ChainHeads, ChainPage, Receipt
from openbell.requests import page


class AsyncReceiptCalls(AsyncCalls):
    """Read why commands were accepted or refused."""

    async def receipt(self, receipt_id: str, *, account_id: str | None = None) -> Receipt:
        """Read one receipt: why a command was accepted or refused."""
        return await self._session.get(Receipt, self._connection.path(account_id, "receipts", receipt_id))

    def receipts_of_intent(self, intent_id: str, *, account_id: str | None = None) -> AsyncIterator[Receipt]:
        """List the receipts of an intent's commands.

        A command that was accepted and then refused before it was sent has two receipts, one after the other.
        """
        request = page(self._connection.path(account_id, "receipts"), intent_id=intent_id)
        return self._session.items(request, PageOf[Receipt])

    def refusals(self, *, account_id: str | None = None) -> AsyncIterator[Receipt]:
        """List the receipts of commands that a control refused, the oldest first."""
        request = page(self._connection.path(account_id, "receipts"), refused="true")
        return self._session.items(request, PageOf[Receipt])

    async def chain(self, *, account_id: str | None = None) -> ChainHeads:
        """Read the number of the account's actions and refusals, and the current heads of their hash chains."""
        first = await self._session.fetch(page(self._connection.path(account_id, "chain"), limit=1), ChainPage)
        return first.heads

    def chained_actions(self, *, account_id: str | None = None) -> AsyncIterator[ChainedAction]:
        """List every action with the fields that its hash and its chain are computed from, the oldest first."""
        return self._session.items(page(self._connection.path(account_id, "chain")), PageOf[ChainedAction])
