"""Whether each market order of a platform was filled exactly once, in its ledger and in the paper broker's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import ActionId, client_order_id
from proof.books import rows

_OURS: Final = """
select s.account_id, s.action_id, count(e.execution_id) as fills,
    o.close_reason is not distinct from 'FILLED' and coalesce(sum(e.quantity), 0) = o.quantity as is_filled
from openbell.orders o
join openbell.action_states s on s.account_id = o.account_id and s.intent_id = o.order_id and s.action_type = 'CREATE'
left join openbell.executions e on e.account_id = o.account_id and e.order_id = o.order_id
where o.order_type = 'MARKET'
group by o.organization_id, o.account_id, o.order_id, s.account_id, s.action_id
"""
_AT_BROKER: Final = """
select account_id, client_order_id, count(distinct number) as orders, count(e.ordinal) as fills
from orders left join executions e on e.order_number = number
where order_type = 'MARKET' group by account_id, client_order_id
"""
_EVENT_GAPS: Final = """
select count(*) from openbell.account_counters c left join (
    select account_id, count(*) as events, min(event_no) as first, max(event_no) as last
    from openbell.account_events group by account_id
) e using (account_id)
where c.event_no > 0 and (e.events, e.first, e.last) is distinct from (c.event_no, 1::bigint, c.event_no)
"""
# An order has both: its account and the client order id.
Name = tuple[UUID, str]


@dataclass(frozen=True, slots=True)
class Ours:
    """An order in the platform's ledger; it is filled if it was closed for that reason with its whole quantity."""

    is_filled: bool
    fills: int


@dataclass(frozen=True, slots=True)
class AtBroker:
    """What the broker has under one client order id."""

    orders: int
    fills: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Numbers of market orders; each fill at the paper broker is a whole order."""

    recorded: int
    # In both ledgers.
    filled_once: int
    # Orders and fills in either ledger beyond the first of an order, and orders at the broker that we did not record.
    doubled: int


def compare(ours: Mapping[Name, Ours], at_broker: Mapping[Name, AtBroker]) -> Comparison:
    once = AtBroker(orders=1, fills=1)
    return Comparison(
        recorded=len(ours),
        filled_once=sum(order == Ours(True, 1) and at_broker.get(name) == once for name, order in ours.items()),
        doubled=sum(max(0, order.fills - 1) for order in ours.values())
        + sum(max(0, order.orders - 1, order.fills - 1) for order in at_broker.values())
        + len(at_broker.keys() - ours.keys()),
    )


async def compare_ledgers(platform: LocalPlatform) -> Comparison:
    ours = {
        (row["account_id"], client_order_id(ActionId(row["action_id"]))): Ours(row["is_filled"], row["fills"])
        for row in await rows(platform.owner_url, _OURS)
    }
    at_broker = {
        (row["account_id"], row["client_order_id"]): AtBroker(row["orders"], row["fills"])
        for row in await rows(paper_ledger(platform), _AT_BROKER)
    }
    return compare(ours, at_broker)


async def accounts_with_event_gaps(platform: LocalPlatform) -> int:
    """Accounts whose events are not numbered from 1 to the account's counter."""
    ((accounts,),) = await rows(platform.owner_url, _EVENT_GAPS)
    return int(accounts)


def paper_ledger(platform: LocalPlatform) -> str:
    """The paper broker's database."""
    return platform.services.postgres.url("openbell_paper")
