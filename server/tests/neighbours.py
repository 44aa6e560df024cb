"""Organizations that have something of everything, and what a statement is called with to reach exactly that."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from builders import Tenant, a_cancel, a_limit_create, a_market_create, a_report, a_tenant, accept, an_execution, new_id
from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.leases import PostgresLeaseStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.outbox import PostgresOutboxStore
from openbell_server.adapters.postgres.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.user_deletions import PostgresUserDeletionStore
from openbell_server.application.delete_user import UserDeletion
from openbell_server.domain.broker_orders import ReportStatus, Unknown
from openbell_server.domain.controls import ManualControl
from openbell_server.domain.identifiers import IntentId, OrganizationId, ReceiptId, Symbol, client_order_id
from openbell_server.domain.outbox import ClaimedRow
from openbell_server.domain.receipts import Receipt
from scripted_broker import Desk
from tenancy import Owner

EXECUTION_ID = "e1"
KEY = "k"
REFERENCE = "r"
DELETED = "deleted"
LEAVING = "leaving"
# What these parameters carry leads to somebody's rows.
ID_PARAMETERS = {
    "organization_id",
    "organization_ids",
    "account_id",
    "account_ids",
    "intent_id",
    "intent_ids",
    "order_id",
    "action_id",
    "action_ids",
    "api_key_id",
    "key_id",
    "external_id",
    "execution_ids",
    "outbox_ids",
    "executor_id",
}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An organization with fills, cancels, an unknown outcome, an open door, waiting actions, claims and leases."""

    tenant: Tenant
    waiting: IntentId
    executor_id: UUID
    held: set[int]
    claimed: ClaimedRow

    @property
    def organization_id(self) -> OrganizationId:
        return self.tenant.account.organization_id


async def a_neighbour(pool: Pool) -> Neighbour:
    desk = Desk(pool, await with_controls(pool, await a_tenant(pool)))
    filled = await desk.accept()
    (door,) = await desk.work()
    order_id = client_order_id(door.action.action_id)
    await desk.report(a_report(ReportStatus.FILLED, [an_execution(1, 10)], client_order_id=order_id))
    working, _ = await desk.working()
    desk.broker.script.append(Unknown("no answer"))
    await desk.accept(a_limit_create())
    await desk.work()
    await desk.accept(a_limit_create())
    await desk.open_doors()
    await desk.accept(a_cancel(working))
    superseded = await desk.accept(a_market_create(reference=REFERENCE))
    await desk.accept(a_cancel(superseded))
    (again,) = await accept(pool, desk.tenant.submission(key=KEY))
    waiting = again.intent_id
    assert filled != waiting
    # An order from before a restore, for the command that waits.
    async with PostgresExecutionStore(pool).account_transaction(desk.account) as transaction:
        await transaction.add_forgotten_orders([desk.tenant.submission(key=KEY).action_id])
    await lose_users(pool, desk.tenant.account.organization_id)
    executor_id = uuid4()
    leases = PostgresLeaseStore(pool)
    await leases.join(executor_id)
    await leases.renew(executor_id, 60)
    held = await leases.take(executor_id, 60, 4)
    claimed = await PostgresOutboxStore(pool).claim_across_organizations(1000)
    ours = [row for row in claimed if row.account_id == desk.tenant.account.id]
    await PostgresOutboxStore(pool).release_across_organizations(ours[1:], [0.0] * (len(ours) - 1))
    return Neighbour(desk.tenant, waiting, executor_id, held, ours[0])


async def lose_users(pool: Pool, organization_id: OrganizationId) -> None:
    """One who was deleted, and one whose deletion is due."""
    deletions = PostgresUserDeletionStore(pool)
    await deletions.request(UserDeletion(organization_id, "dev", DELETED))
    await deletions.finish(UserDeletion(organization_id, "dev", DELETED))
    async with transaction(pool, Role.TENANT, organization_id) as connection:
        await named_queries.load("user_deletions").request_deletion(
            connection, organization_id=organization_id, provider="dev", subject=LEAVING, hold_seconds=0.0
        )


async def with_controls(pool: Pool, tenant: Tenant) -> Tenant:
    """Both controls of a symbol that is not traded, and a receipt of a refusal."""
    store, account = PostgresControlStore(pool), tenant.account
    where = (account.organization_id, account.id)
    await store.set_manual(*where, Symbol("HALTED"), ManualControl(manually_disabled=True), tenant.principal)
    await store.change_time(*where, Symbol("HALTED"), lambda control: control, tenant.principal)
    await store.keep_refusal(*where, ReceiptId(new_id()), Receipt("REFUSED", "{}"))
    found = await PostgresOrganizationStore(pool).find_account(*where)
    assert found is not None
    return replace(tenant, account=found)


async def values_of(owner: Owner, neighbour: Neighbour) -> dict[str, Any]:
    """A value for every parameter of every statement, read from the rows of one organization."""
    account = neighbour.tenant.account
    row = await owner.fetchrow(
        "select s.action_id, i.command_hash, k.api_key_id, k.key_id, k.secret_hash, o.external_id, o.provider"
        " from openbell.action_states s join openbell.api_keys k using (organization_id)"
        " join openbell.idempotency_keys i using (organization_id, account_id, intent_id, seq)"
        " join openbell.organizations o using (organization_id) where s.intent_id = $1",
        neighbour.waiting,
    )
    assert row is not None
    return {
        **dict(row),
        **_plain_values(),
        "organization_id": neighbour.organization_id,
        "account_id": account.id,
        "slot": account.slot,
        "intent_id": neighbour.waiting,
        "order_id": neighbour.waiting,
        "intent_ids": [neighbour.waiting],
        "action_ids": [row["action_id"]],
        # One that is there and one that is not.
        "execution_ids": [EXECUTION_ID, "fresh"],
        "executor_id": neighbour.executor_id,
        "slots": sorted(neighbour.held | {account.slot}),
        "outbox_ids": [neighbour.claimed.outbox_id],
        "claim_tokens": [neighbour.claimed.claim_token],
        "organization_ids": [neighbour.organization_id],
        "account_ids": [account.id],
    }


def _plain_values() -> dict[str, Any]:
    """What is nobody's."""
    now = datetime.now(UTC)
    return (
        {"name": "Mallory", "broker": "paper", "environment": "paper", "entitlements": [], "permissions": []}
        | {"seq": None, "after": 0, "row_limit": 100, "attempts_max": 20, "seconds": 60.0, "wait_seconds": [1.0]}
        | {"older_than_seconds": 0.0, "stuck_after_seconds": 0.0, "attempt_id": uuid4(), "asked_at": now}
        | {"found": False, "previous": "QUEUED", "state": "SKIPPED", "settled": True, "reason_code": None}
        | {"broker_code": None, "broker_text": None, "filled_quantity": Decimal(1), "filled_value": Decimal(1)}
        | {"standing": "WORKING", "close_reason": None, "pending": "NONE", "certainty": "CONFIRMED"}
        | {"broker_order_ids": ["b9"], "quantities": [Decimal(1)] * 2, "prices": [Decimal(1)] * 2}
        | {"executed_ats": [now] * 2, "symbol": "AAPL", "change": Decimal(1)}
        | {"quantity": Decimal(10), "limit_price": None, "stop_price": None, "time_in_force": "DAY"}
        | {"provider": "dev", "subject": DELETED, "reason": "left", "hold_seconds": 5.0}
        | {"backoff_seconds_max": 60.0, "role_names": list(Role)}
        | {"settle_seconds": 0.0, "epoch": 1, "key": KEY}
        | {"disabled": False, "internal": False, "revoked": False, "expires_at": None}
        | {"audit_id": new_id(), "principal_type": "USER", "principal_id": "p", "operation": "o", "object_id": "i"}
        | {"fact_before": None, "fact_after": "{}"}
        | {"manually_disabled": True, "manual_reason": None, "principal_type": "API_KEY", "receipt": "{}"}
        | {"trading_start": None, "trading_end": None, "timezone": None, "days": None, "stale_order_millis": 1}
        | {"kinds": [2], "seqs": [1], "bodies": ["{}"]}
        | {"last": 1000, "action_type": "CANCEL", "client_reference_id": REFERENCE, "created_after": None}
        | {"created_before": None, "moment": now, "later_seconds": -60.0}
        | {"span": "HOUR", "window_seconds": 3600.0, "in_flight_max": 10, "symbols_max": 10}
        # The accept step's own.
        | {"receipt_id": new_id()}
        | {"receipt_ids": [new_id()], "action_types": ["CREATE"], "idempotency_keys": [None], "command_hashes": [b""]}
        | {"organization_epochs": [1], "account_epochs": [1], "symbols": ["AAPL"], "order_sides": ["BUY"]}
        | {"order_types": ["MARKET"], "route_strategies": ["SMART"], "limit_prices": [None], "stop_prices": [None]}
        | {"times_in_force": ["DAY"], "client_reference_ids": [None], "principal_types": ["API_KEY"]}
        | {"principal_ids": ["p"], "receipts": ["{}"]}
    )


def fresh_values(statement: str) -> dict[str, Any]:
    """For statements that create: ids that are not taken yet; for some others: what leads to their rows."""
    create = statement.rpartition(".")[2]
    if create == "add_forgotten_orders":
        return {"action_ids": [new_id()]}
    if create == "create_organization":
        return {"organization_id": new_id(), "external_id": new_id().hex}
    if create in {"request_deletion", "deny_user_across_organizations"}:
        return {"subject": new_id().hex}
    if create == "finish_deletion":
        return {"subject": LEAVING}
    if create == "create_api_key":
        return {"api_key_id": new_id(), "key_id": new_id().hex[-12:]}
    if create == "create_account":
        return {"account_id": new_id()}
    if create == "list_actions_of_reference":
        return {"action_type": "CREATE"}
    if create == "keep_refusal":
        return {"receipt_id": new_id()}
    if create in ("accept_commands", "accept_replaces_across_organizations"):
        return {"action_ids": [new_id()], "intent_ids": [new_id()], "quantities": [Decimal(1)]}
    return {}


async def rows_of(owner: Owner, neighbour: Neighbour) -> dict[str, list[str]]:
    """Every row that an organization has, by table."""
    tables = await owner.fetch(
        "select table_name from information_schema.columns"
        " join information_schema.tables using (table_schema, table_name)"
        " where table_schema = 'openbell' and column_name = 'organization_id' and table_type = 'BASE TABLE'"
    )
    return {
        name: [
            row[0]
            for row in await owner.fetch(
                f"select to_jsonb(t)::text from openbell.{name} t where organization_id = $1 order by 1",
                neighbour.organization_id,
            )
        ]
        for (name,) in tables
    }
