"""What accounts lost on a day, and the events when a limit was exceeded."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import PostgresStore, Role, transaction
from openbell_server.adapters.postgres.market_rows import mark_of
from openbell_server.application.money.ports import AnnouncedBreach
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.rules import PLATFORM_ID
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.money.losses import measured

_queries, _market_queries = named_queries.load("losses"), named_queries.load("markets")


@dataclass(frozen=True, slots=True)
class PostgresLossStore(PostgresStore):
    """Implements LossStore."""

    async def accounts_with_loss_limits_across_organizations(
        self, slots: Collection[int]
    ) -> list[tuple[OrganizationId, AccountId, datetime]]:
        rows = await self._rows_across(
            Role.EXECUTOR,
            _queries.accounts_with_loss_limits_across_organizations,
            slots=list(slots),
            platform_id=PLATFORM_ID,
        )
        return [(row["organization_id"], row["account_id"], row["now"]) for row in rows]

    async def keep_loss(
        self,
        account: TradingAccount,
        place: tuple[str, str],
        day: date,
        profit: Decimal,
        at: datetime,
        breaches: Sequence[AnnouncedBreach],
    ) -> bool:
        where = {"organization_id": account.organization_id, "account_id": account.id}
        currency, zone = place
        async with transaction(self.pool, Role.EXECUTION, account.organization_id, locked=account.id) as connection:
            stored = {
                (row["currency"], row["timezone"]): row
                async for row in _market_queries.read_losses(connection, **where)
            }
            row = stored.get(place)
            before = None if row is None else mark_of(row)
            if before is not None and before.as_of >= at:
                return False
            mark = measured(before, day, profit, at)
            announced = [] if row is None or row["day"] < mark.day else list(row["announced"])
            news = [each for each in breaches if each.key not in announced and each.lost(mark) > each.limit]
            await _queries.save_mark(
                connection,
                **where,
                currency=currency,
                timezone=zone,
                day=mark.day,
                opening=mark.opening,
                highest=mark.highest,
                profit=mark.profit,
                lost_from_opening=mark.lost_from_opening,
                lost_from_highest=mark.lost_from_highest,
                as_of=mark.as_of,
                announced=announced + [each.key for each in news],
            )
            if news:
                await _queries.append_breaches(
                    connection, **where, bodies=[json.dumps(each.body(mark)) for each in news]
                )
        return bool(news)
