"""The route of an account's balances."""

from uuid import UUID

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from openbell_server.application.money.read_balances import ReadBalances
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.money.balances import StoredBalances
from openbell_server.domain.orders.intents import plain
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.wire_types import Moment


class BalancesBody(Struct, frozen=True, kw_only=True):
    """What the account has at its broker; null where the broker does not report it, and before the first report."""

    account_id: UUID
    # Who reports the amounts.
    broker: str
    currency: str | None = None
    cash: str | None = None
    equity: str | None = None
    buying_power: str | None = None
    initial_margin: str | None = None
    maintenance_margin: str | None = None
    as_of: Moment | None = None
    read_at: Moment | None = None


def balance_route(enter: Enter, read: ReadBalances) -> HTTPRouteHandler:
    @get("/v1/accounts/{account_id:uuid}/balances")
    async def show_balances(request: AnyRequest, account_id: FromPath[UUID]) -> BalancesBody:
        caller = await enter(request, Operation.READ_INTENTS)
        return _balances(*await read(caller, AccountId(account_id)))

    return show_balances


def _balances(account: TradingAccount, stored: StoredBalances | None) -> BalancesBody:
    if stored is None:
        return BalancesBody(account_id=account.id, broker=account.broker)
    found = stored.balances
    return BalancesBody(
        account_id=account.id,
        broker=account.broker,
        currency=found.currency,
        cash=plain(found.cash),
        equity=plain(found.equity),
        buying_power=plain(found.buying_power),
        initial_margin=plain(found.initial_margin),
        maintenance_margin=plain(found.maintenance_margin),
        as_of=found.as_of,
        read_at=stored.read_at,
    )
