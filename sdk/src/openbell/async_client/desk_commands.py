"""Calls about desk commands."""

from collections.abc import AsyncIterator

from openbell.async_client.calls import AsyncCalls
from openbell.intents.desk_commands import DeskCommand, DeskOrder, desk_command_request
from openbell.models import PageOf
from openbell.requests import Request, page


class AsyncDeskCalls(AsyncCalls):
    """Cancel many orders, or close a position, as one command."""

    async def cancel_all(
        self,
        *,
        symbol: str | None = None,
        api_key_id: str | None = None,
        idempotency_key: str | None = None,
        account_id: str | None = None,
    ) -> DeskCommand:
        """Cancel every open order of the account, or of a symbol, or those that an API key created.

        Returns the recorded command at once, not when the orders are cancelled: see `wait_for_desk_command`. Errors as
        in `create_intent`.
        """
        body = {"type": "CANCEL_ALL", "symbol": symbol, "api_key_id": api_key_id}
        request = desk_command_request(self._connection, account_id, idempotency_key, body)
        return await self._session.submit(request, DeskCommand)

    async def close_position(
        self, symbol: str, *, idempotency_key: str | None = None, account_id: str | None = None
    ) -> DeskCommand:
        """Cancel the open orders of a symbol, then place one market order for the position that is left.

        Returns the recorded command at once: see `wait_for_desk_command`. Errors as in `create_intent`.
        """
        body = {"type": "CLOSE_POSITION", "symbol": symbol}
        request = desk_command_request(self._connection, account_id, idempotency_key, body)
        return await self._session.submit(request, DeskCommand)

    async def desk_command(self, desk_command_id: str, *, account_id: str | None = None) -> DeskCommand:
        """Read a desk command with its orders per outcome. Raises NotFound if there is no such command."""
        return await self._session.get(DeskCommand, self._connection.path(account_id, "desk-commands", desk_command_id))

    async def wait_for_desk_command(
        self, desk_command_id: str, timeout: float = 30.0, *, account_id: str | None = None
    ) -> DeskCommand:
        """Poll a desk command until it has ended, for `timeout` seconds; after that, it is returned as it is."""
        request = Request("GET", self._connection.path(account_id, "desk-commands", desk_command_id))
        return await self._session.poll(request, timeout, DeskCommand, lambda command: command.is_ended)

    def desk_commands(self, *, account_id: str | None = None) -> AsyncIterator[DeskCommand]:
        """List the desk commands of the account, the newest first."""
        return self._session.items(page(self._connection.path(account_id, "desk-commands")), PageOf[DeskCommand])

    def desk_orders(self, desk_command_id: str, *, account_id: str | None = None) -> AsyncIterator[DeskOrder]:
        """List every order of a desk command with its outcome, the oldest first."""
        path = self._connection.path(account_id, "desk-commands", desk_command_id, "orders")
        return self._session.items(page(path), PageOf[DeskOrder])
