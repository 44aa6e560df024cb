"""Organizations that have something of everything, and what a statement is called with to reach exactly that."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.access.credentials import PostgresCredentialStore
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.access.user_deletions import PostgresUserDeletionStore
from openbell_server.adapters.postgres.connection import DatabaseClock, Pool, Role, transaction
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.events.stream_counts import PostgresStreamCounts
from openbell_server.adapters.postgres.execution.execution import PostgresExecutionStore
from openbell_server.adapters.postgres.execution.sign_ins import PostgresSessionStore
from openbell_server.adapters.postgres.execution.slot_leases import PostgresLeaseStore
from openbell_server.application.access.delete_user import UserDeletion
from openbell_server.application.events.account_log import log_position_adjusted
from openbell_server.application.execution.import_external_orders import import_orders
from openbell_server.domain.access.credentials import NewCredential, SealedSecrets, SecretPlace
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.controls.symbol_controls import ManualControl
from openbell_server.domain.events.outbox import ClaimedRow, OutboxStatus, Queue
from openbell_server.domain.identifiers import ActionId, IntentId, OrganizationId, ReceiptId, Symbol, client_order_id
from openbell_server.domain.orders.broker_reports import ExecutionChange, OrderDescription, ReportStatus, Unknown
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from openbell_server.domain.orders.positions import PositionCause
from support.brokers.scripted_broker import Harness
from support.builders.tenant import (
    Tenant,
    a_cancel,
    a_limit_create,
    a_market_create,
    a_report,
    a_tenant,
    accept,
    an_execution,
    new_id,
)
from support.tenancy.console_values import values_of_console
from support.tenancy.halts import halted
from support.tenancy.outbox_queues import relay_store
from support.tenancy.statements import Owner
from support.tenancy.tenant_balances import add_balances, add_books, add_losses, values_of_books
from support.tenancy.tenant_delivery_queue import values_of_lanes
from support.tenancy.tenant_desk_commands import add_desk_commands, values_of_desk_commands
from support.tenancy.tenant_markets import values_of_markets, with_markets
from support.tenancy.tenant_rules import promise_heartbeats, values_of_rules
from support.tenancy.tenant_webhooks import values_of_webhooks, with_webhook

EXECUTION_ID = "e1"
KEY = "k"
REFERENCE = "r"
DELETED = "deleted"
LEAVING = "leaving"
# What these parameters carry leads to somebody's rows.
ID_PARAMETERS = {
    *("organization_id", "organization_ids"),
    *("account_id", "account_ids"),
    *("intent_id", "intent_ids"),
    *("order_id", "action_id", "action_ids"),
    *("api_key_id", "key_id", "key_ids"),
    *("external_id", "execution_ids"),
    *("outbox_ids", "outbox_id"),
    *("executor_id", "credential_id", "receipt_id", "of_whom", "webhook_id"),
}


@dataclass(frozen=True, slots=True)
class PopulatedTenant:
    """An organization with fills, cancels, an unknown outcome, an open door, waiting actions, claims and leases."""

    tenant: Tenant
    waiting: IntentId
    executor_id: UUID
    held: set[int]
    claimed: ClaimedRow
    # A row of the accounts' queue.
    failed: int
    # An order with an execution, and the client order id of one that nobody asked for here.
    filled: IntentId
    external: str
    forgotten: ActionId

    @property
    def organization_id(self) -> OrganizationId:
        return self.tenant.account.organization_id


async def populated_tenant(pool: Pool) -> PopulatedTenant:
    tenant = await with_webhook(pool, await with_markets(pool, await a_tenant(pool)))
    harness = Harness(pool, await with_controls(pool, await with_credential(pool, tenant)))
    filled = await harness.accept()
    (door,) = await harness.work()
    order_id = client_order_id(door.action.action_id)
    fill = an_execution(1, 10)
    corrected = ExecutionChange(execution_id=fill.execution_id, revision=1, quantity=fill.quantity, price=fill.price)
    report = a_report(ReportStatus.FILLED, [fill], client_order_id=order_id)
    await harness.report(replace(report, changes=(corrected,)))
    working, _ = await harness.working()
    harness.broker.script.append(Unknown("no answer"))
    await harness.accept(a_limit_create())
    await harness.work()
    await harness.accept(a_limit_create())
    await harness.open_doors()
    await harness.accept(a_cancel(working))
    superseded = await harness.accept(a_market_create(reference=REFERENCE))
    await harness.accept(a_cancel(superseded))
    (again,) = await accept(pool, harness.tenant.submission(key=KEY))
    waiting = again.intent_id
    assert filled != waiting
    # An order from before a restore, for the command that waits.
    async with PostgresExecutionStore(pool).account_transaction(harness.account) as transaction:
        forgotten = harness.tenant.submission(key=KEY).action_id
        await transaction.add_forgotten_orders([forgotten])
        described = OrderDescription(
            symbol=Symbol("AAPL"),
            order_side=OrderSide.BUY,
            order_type=OrderType.MARKET,
            accepted_at=datetime.now(UTC),
        )
        theirs = replace(report, broker_order_id="theirs", description=described)
        works = replace(theirs, broker_order_id="works", status=ReportStatus.WORKING, executions=())
        assert await import_orders(transaction, [theirs, works]) == 2
        await transaction.add_to_position(Symbol("AAPL"), Decimal(1), PositionCause.OPENING)
        log_position_adjusted(transaction, Symbol("AAPL"), Decimal(0), Decimal(1), PositionCause.OPENING)
    await add_balances(pool, harness.account)
    await add_books(pool, harness.account)
    await add_losses(pool, harness.tenant.account)
    await add_desk_commands(pool, harness.tenant)
    await lose_users(pool, harness.tenant.account.organization_id)
    assert await PostgresStreamCounts(pool, uuid4()).raise_count(harness.tenant.account.organization_id, 1, 10, 1)
    executor_id, leases = uuid4(), PostgresLeaseStore(pool)
    await leases.join(executor_id)
    await leases.renew(executor_id, 60)
    held = await leases.take(executor_id, 60, 4)
    await PostgresSessionStore(pool, DatabaseClock(pool)).report_feed(
        executor_id, "paper", connected=True, compared=frozenset(), signing_in=frozenset(), mute=None
    )
    async with relay_store(pool, Queue.INTENTS) as queue:
        claimed = await queue.claim_across_organizations(1000)
        ours = [row for row in claimed if row.in_order_of == str(harness.tenant.account.id)]
        await queue.release_across_organizations(ours[1:], [0.0] * (len(ours) - 1))
    failed = await a_failed_row(pool, harness.tenant)
    # Last: doors open before it.
    tenant = await halted(pool, harness.tenant)
    return PopulatedTenant(tenant, waiting, executor_id, held, ours[0], failed, filled, order_id, forgotten)


async def a_failed_row(pool: Pool, tenant: Tenant) -> int:
    """Of the accounts' queue; nobody may do all of it."""
    account = tenant.account
    async with transaction(pool, Role.TENANT, account.organization_id) as connection:
        await connection.execute(
            "insert into account_outbox (organization_id, account_id, event_type, payload, available_at, created_at)"
            " values ($1, $2, 'account.updated', '{}', now(), now())",
            account.organization_id,
            account.id,
        )
    async with transaction(pool, Role.RELAY) as connection:
        failing = "update account_outbox set status = 'failed', resolved_at = now() where account_id = $1"
        return int(await connection.fetchval(f"{failing} returning outbox_id", account.id))


async def lose_users(pool: Pool, organization_id: OrganizationId) -> None:
    """One who was deleted, and one whose deletion is due."""
    deletions = PostgresUserDeletionStore(pool)
    for step in (deletions.request, deletions.finish):
        await step(UserDeletion(organization_id, "dev", DELETED))
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
    address = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    for code, parameters in (("QTY_MAX", {"quantity": "1000000"}), ("LOSS_MAX", {"value": "9", "currency": "USD"})):
        terms = RuleTerms(parameters=parameters)
        await PostgresRuleStore(pool).save_rule(address, code, terms, "size", tenant.principal, None)
    await promise_heartbeats(pool, tenant, address)
    async with transaction(pool, Role.TENANT, account.organization_id) as connection:
        rates = {"scopes": ["organization"], "subjects": [""], "limits": [3], "judged_at": account.now}
        counted = named_queries.load("accept_with_counts")
        async for _ in counted.count_judged(connection, organization_id=account.organization_id, **rates):
            pass
        days = {"scopes": ["organization"], "subjects": [""], "currencies": ["USD"], "dates": [account.now.date()]}
        async for _ in counted.lock_day_values(connection, organization_id=account.organization_id, **days):
            pass
        reserved = {"action_id": new_id(), "currency": "USD", "amount": 1}
        await counted.reserve_funds(connection, organization_id=where[0], account_id=where[1], **reserved)
    await store.keep_refusal(*where, ReceiptId(new_id()), Receipt("REFUSED", '{"command":{}}'))
    found = await PostgresOrganizationStore(pool).find_account(*where)
    assert found is not None
    return replace(tenant, account=found)


async def with_credential(pool: Pool, tenant: Tenant) -> Tenant:
    """A credential that runs out soon, and nobody was told; what is sealed of it nobody opens."""
    account = tenant.account
    place = SecretPlace(account.organization_id, account.id, new_id(), 1)
    new = NewCredential(
        broker="paper", kind="paper_key", hint="K7Q2", expires_at=datetime.now(UTC) + timedelta(hours=1)
    )
    store = PostgresCredentialStore(pool, DatabaseClock(pool))
    assert await store.save(tenant.principal, place, new, SealedSecrets("old", b"w", b"s")) is not None
    return tenant


async def values_of(owner: Owner, neighbour: PopulatedTenant) -> dict[str, Any]:
    """A value for every parameter of every statement, read from the rows of one organization."""
    account = neighbour.tenant.account
    row = await owner.fetchrow(
        "select s.action_id, a.receipt_id, i.command_hash, k.api_key_id, k.key_id, k.secret_hash, o.external_id,"
        " o.provider"
        " from openbell.action_states s join openbell.api_keys k using (organization_id)"
        " join openbell.intent_actions a using (organization_id, account_id, intent_id, seq)"
        " join openbell.idempotency_keys i using (organization_id, account_id, intent_id, seq)"
        " join openbell.organizations o using (organization_id) where s.intent_id = $1",
        neighbour.waiting,
    )
    assert row is not None
    credential = await owner.fetchrow(
        "select credential_id, expires_at, expires_at as due_at from openbell.credentials where account_id = $1",
        account.id,
    )
    assert credential is not None
    return {
        **dict(row),
        **_plain_values(),
        "organization_id": neighbour.organization_id,
        **dict.fromkeys(("account_id", "of_account"), account.id),
        "slot": account.slot,
        "intent_id": neighbour.waiting,
        "order_id": neighbour.filled,
        "intent_ids": [neighbour.waiting],
        "action_ids": [row["action_id"], neighbour.forgotten],
        "client_order_ids": [neighbour.external],
        # One that is there and one that is not.
        "execution_ids": [EXECUTION_ID, "fresh"],
        "executor_id": neighbour.executor_id,
        "slots": sorted(neighbour.held | {account.slot}),
        "outbox_ids": [neighbour.claimed.outbox_id],
        "claim_tokens": [neighbour.claimed.claim_token],
        "outbox_id": neighbour.failed,
        "organization_ids": [neighbour.organization_id],
        **dict(credential),
        "credential_ids": [credential["credential_id"]],
        "account_ids": [account.id],
        "key_ids": [row["key_id"]],
        "of_whom": str(account.id),
        **await values_of_webhooks(owner, neighbour.organization_id),
        **(await values_of_books(owner, account.id) | await values_of_desk_commands(owner, account.id)),
    }


def _plain_values() -> dict[str, Any]:
    """What is nobody's."""
    now = datetime.now(UTC)
    return (
        {"name": "Mallory", "broker": "paper", "environment": "paper", "entitlements": [], "permissions": []}
        | {"seq": None, "after": 0, "row_limit": 100, "look_at": 100, "keep_seconds": 0.0, "queue": "intents"}
        | {"bucket": 0, "attempts_max": 20, "head_start_seconds": 0.0, "seconds": 60.0, "wait_seconds": [1.0]}
        | {"older_than_seconds": 0.0, "stuck_after_seconds": 0.0, "attempt_id": uuid4(), "asked_at": now}
        | {"flag_after_seconds": 0.0, "states": ["UNKNOWN", "DISPATCHING"]}
        | {"found": False, "previous": "QUEUED", "state": "SKIPPED", "settled": True, "reason_code": None}
        | {"broker_code": None, "broker_text": None, "filled_quantity": Decimal(1), "filled_value": Decimal(1)}
        | _values_of_an_order(now)
        | {"provider": "dev", "subject": DELETED, "reason": "left", "hold_seconds": 5.0}
        | {"backoff_seconds_max": 60.0, "role_names": list(Role)}
        | {"queue": "accounts", "queues": list(Queue), "statuses": list(OutboxStatus)}
        | {"operator": "olga", "requeued_as": None, "cancels_unseen": True, "max_resting_millis": 1_000}
        | {"settle_seconds": 0.0, "epoch": 1, "key": KEY, "fact_before": None, "fact_after": "{}"}
        | {"disabled": False, "internal": False, "revoked": False, "expires_at": None, "own_orders_only": False}
        | {"own_key": None, "set_by_users": [], "paper_enforcement": "ENFORCE"}
        | {"audit_id": new_id(), "principal_type": "USER", "principal_id": "p", "operation": "o", "object_id": "i"}
        | {"manually_disabled": True, "manual_reason": None, "principal_type": "API_KEY", "receipt": "{}"}
        | {"trading_start": None, "trading_end": None, "timezone": "UTC", "days": None, "stale_order_millis": 1}
        | {"event_type": "account.updated", "payload": "{}", "closed": False, "disabled_reason": None}
        | {"connected": True, "compared": [1], "signing_in": [], "read_at": now, "is_valid": True, "refusal_code": None}
        | {"external_account_id": None, "base_currency": "USD", "credential_status": "MISSING"}
        | {"status": "VALID", "credential_version": 1, "kind": "paper_key", "hint": "K7Q2"}
        | {"kinds": [2], "seqs": [1], "bodies": ["{}"], "body": "{}", "changed": ["name"]}
        | {"last": 1000, "action_type": "CANCEL", "client_reference_id": REFERENCE, "since": None}
        | {"until": None, "moment": now, "later_seconds": -60.0}
        | {"span": "HOUR", "window_seconds": 3600.0, "in_flight_max": 10, "symbols_max": 10}
        | {"version": 1, "wrapped_key": b"w", "sealed": b"s"}
        | {"wrapping_key_id": "new", "after_organization_id": UUID(int=0), "after_account_id": UUID(int=0)}
        | {"after_credential_id": UUID(int=0), "after_version": 0, "versions": [1]}
        | {"earlier_key_ids": ["old"], "wrapping_key_ids": ["new"], "wrapped_keys": [b"n"]}
        | _values_of_the_accept_step()
        | _values_of_reconciliation()
        | {"calendar": "XNYS", "trade_date": now.date(), "session": "REGULAR", "on_close": None}
        | values_of_markets()
        | values_of_rules(now)
        | (values_of_lanes() | values_of_console())
    )


def _values_of_an_order(now: datetime) -> dict[str, Any]:
    return (
        {"standing": "WORKING", "close_reason": None, "pending": "NONE", "certainty": "CONFIRMED"}
        | {"broker_order_ids": ["b1", "theirs"], "quantities": [Decimal(1)] * 2, "prices": [Decimal(1)] * 2}
        | {"revisions": [1] * 2, "triggered": True, "terms_version": 2, "highest_quantity": None, "ended": None}
        | {"busted_quantity": Decimal(0), "executions_changed": False, "ended_filled": Decimal(0)}
        | {"attempt_before": uuid4(), "broker_order_id": "x1", "client_order_id": None, "status": "WORKING"}
        | {"order_side": "BUY", "order_type": "MARKET", "accepted_at": now, "code": "QTY_MAX", "detail": "d"}
        | {"executed_ats": [now] * 2, "symbol": "AAPL", "change": Decimal(1), "after_number": 0, "switches": None}
        | {"fees": [None] * 2, "value": None, "average_price": None}
        | {"quantity": Decimal(10), "limit_price": None, "stop_price": None, "time_in_force": "DAY"}
        | {"scope": Scope.ACCOUNT, "terms": "{}", "override_terms": None, "override_expires_at": None}
        | {"calendar": "XNYS", "trade_date": now.date(), "is_reset": False, "opens_at": None, "closes_at": None}
        | {"before_no": None, "rule_before": None, "rule_after": None, "changed_at": now, "whose": UUID(int=0)}
    )


def _values_of_reconciliation() -> dict[str, Any]:
    return {
        "candidates": ["b9"],
        "reconciled_at": datetime.now(UTC),
        "event_no": 1,
        "halted_only": False,
        "mute": [],
    }


def _values_of_the_accept_step() -> dict[str, Any]:
    return (
        {"receipt_ids": [new_id()], "action_types": ["CREATE"], "idempotency_keys": [None], "command_hashes": [b""]}
        | {"organization_epochs": [1], "account_epochs": [1], "symbols": ["AAPL"], "order_sides": ["BUY"]}
        | {"order_types": ["MARKET"], "route_strategies": ["SMART"], "limit_prices": [None], "stop_prices": [None]}
        | {"times_in_force": ["DAY"], "client_reference_ids": [None], "principal_types": ["API_KEY"]}
        | {"principal_ids": ["p"], "receipts": ["{}"], "own_only": [False]}
    )


def _accepted() -> dict[str, Any]:
    return {"action_ids": [new_id()], "intent_ids": [new_id()], "quantities": [Decimal(1)]}


# For statements that create: ids that are not taken yet; for some others: what leads to their rows.
FRESH: dict[str, Callable[[], dict[str, Any]]] = {
    "add_forgotten_orders": lambda: {"action_ids": [new_id()]},
    "create_organization": lambda: {"organization_id": new_id(), "external_id": new_id().hex},
    "request_deletion": lambda: {"subject": new_id().hex},
    "deny_user_across_organizations": lambda: {"subject": new_id().hex},
    "finish_deletion": lambda: {"subject": LEAVING},
    "prune_events_across_organizations": lambda: {"keep_seconds": 7 * 86_400.0},
    "create_api_key": lambda: {"api_key_id": new_id(), "key_id": new_id().hex[-12:]},
    "open_account": lambda: {"account_id": new_id()},
    "add_desk_command": lambda: {"desk_command_id": new_id()},
    "list_actions_of_reference": lambda: {"action_type": "CREATE"},
    "keep_refusal": lambda: {"receipt_id": new_id()},
    "add_webhook": lambda: {"webhook_id": new_id()},
    "add_vault_object": lambda: {"credential_id": new_id()},
    "record_halt": lambda: {"version": 2, "state": "REDUCE_ONLY"},
    "lift_halt": lambda: {"version": 1, "state": "HALTED"},
    "want_symbols": lambda: {"symbols": ["WANTED"]},
    # The next of the rule that everybody has.
    "add_change": lambda: {"version": 2},
    "save_prices": lambda: {"prices": [Decimal(11)]},
    "accept_commands": _accepted,
    "accept_replaces_across_organizations": _accepted,
}


def fresh_values(statement: str) -> dict[str, Any]:
    make = FRESH.get(statement.rpartition(".")[2])
    return make() if make else {}


async def rows_of(owner: Owner, neighbour: PopulatedTenant) -> dict[str, list[str]]:
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
