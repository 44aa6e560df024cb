"""Desk commands of an account, and what their statements are called with."""

from typing import Any
from uuid import UUID

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.desk.desk_commands import PostgresDeskCommandStore
from openbell_server.application.desk.ports import NewDeskCommand
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.domain.orders.desk_commands import DeskCommandType, DeskScope
from support.builders.tenant import Tenant, new_id
from support.tenancy.statements import Owner


async def add_desk_commands(pool: Pool, tenant: Tenant) -> UUID:
    """One that cancels all open orders, one that has nothing to cancel, and one that closes a position."""
    for command_type, symbol in (
        (DeskCommandType.CANCEL_ALL, None),
        (DeskCommandType.CANCEL_ALL, Symbol("NONE")),
        (DeskCommandType.CLOSE_POSITION, Symbol("AAPL")),
    ):
        command = NewDeskCommand(
            id=new_id(),
            account_id=tenant.account.id,
            principal=tenant.principal,
            scope=DeskScope(command_type=command_type, symbol=symbol, api_key_id=None),
            idempotency_key=None,
        )
        recorded, _ = await PostgresDeskCommandStore(pool).accept(command)
    return recorded.id


async def values_of_desk_commands(owner: Owner, account_id: AccountId) -> dict[str, Any]:
    """The command that closes a position."""
    command_id = await owner.fetchval(
        "select desk_command_id from openbell.desk_commands"
        " where account_id = $1 and command_type = 'CLOSE_POSITION' limit 1",
        account_id,
    )
    return {
        "desk_command_id": command_id,
        "command_type": "CANCEL_ALL",
        "idempotency_key": None,
        "desk_reason": "ORDERS_OPEN",
        "failed": False,
    }
