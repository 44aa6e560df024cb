"""Builds what tests need: valid by default, one override per test."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from uuid import UUID

from openbell_server.adapters.postgres.access.accounts import open_account
from openbell_server.adapters.postgres.access.organizations import (
    PostgresOrganizationStore,
    add_api_key,
    add_organization,
)
from openbell_server.adapters.postgres.connection import BLOCKED, DOUBTFUL, DatabaseClock, Pool, Role, transaction
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.application.intents.group_commit import GroupCommit
from openbell_server.application.intents.ports import IntentStore
from openbell_server.application.ports.accept_step import Acceptance, Submission
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import (
    CONTROLS_PREMIUM,
    TRADING_LIVE,
    Environment,
    NewAccount,
    TradingAccount,
)
from openbell_server.domain.access.principals import CONTROL_LOOSEN, PERMISSIONS, Principal, PrincipalKind
from openbell_server.domain.controls.receipts import Evaluation, Receipt, receipt_of
from openbell_server.domain.identifiers import (
    AccountId,
    ActionId,
    IntentId,
    OrganizationId,
    ReceiptId,
    Symbol,
    keyed_action_id,
    uuid7,
)
from openbell_server.domain.orders.broker_reports import BrokerExecution, OrderDescription, OrderReport, ReportStatus
from openbell_server.domain.orders.intents import (
    CancelIntent,
    Command,
    CreateIntent,
    ReplaceIntent,
    command_hash,
    intent_of,
)
from openbell_server.domain.orders.order_terms import (
    OrderSide,
    OrderSpec,
    OrderType,
    ReplacementSpec,
    RouteStrategy,
    Terms,
    TimeInForce,
)


def new_id() -> UUID:
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def a_market_create(quantity: str = "10", symbol: str = "AAPL", reference: str | None = None) -> CreateIntent:
    return CreateIntent(
        symbol=Symbol(symbol),
        order_side=OrderSide.BUY,
        route_strategy=RouteStrategy.SMART,
        spec=OrderSpec(order_type=OrderType.MARKET, quantity=Decimal(quantity), time_in_force=TimeInForce.DAY),
        client_reference_id=reference,
    )


def a_limit_create(price: str = "1.50", quantity: str = "10") -> CreateIntent:
    return replace(
        a_market_create(),
        spec=OrderSpec(
            order_type=OrderType.LIMIT,
            quantity=Decimal(quantity),
            limit_price=Decimal(price),
            time_in_force=TimeInForce.GOOD_TILL_CANCEL,
        ),
    )


def a_cancel(intent_id: IntentId) -> CancelIntent:
    return CancelIntent(ref_intent_id=intent_id)


def a_replace(
    intent_id: IntentId, price: str = "1.75", quantity: str = "12", time_in_force: TimeInForce | None = None
) -> ReplaceIntent:
    """Of a limit order."""
    spec = ReplacementSpec(
        order_type=OrderType.LIMIT,
        quantity=Decimal(quantity),
        limit_price=Decimal(price),
        time_in_force=time_in_force,
    )
    return ReplaceIntent(ref_intent_id=intent_id, spec=spec)


def some_terms(
    quantity: Decimal | int = 10, price: Decimal | str | None = None, time_in_force: TimeInForce = TimeInForce.DAY
) -> Terms:
    limit_price = None if price is None else Decimal(price)
    return Terms(quantity=Decimal(quantity), limit_price=limit_price, time_in_force=time_in_force)


def an_execution(
    number: int, quantity: Decimal | int, price: Decimal | int = 1, fee: str | None = None
) -> BrokerExecution:
    noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
    return BrokerExecution(
        execution_id=f"e{number}",
        quantity=Decimal(quantity),
        price=Decimal(price),
        executed_at=noon,
        fee=None if fee is None else Decimal(fee),
    )


def exact_sum(fills: Sequence[BrokerExecution]) -> Decimal:
    with localcontext(prec=200):
        return sum((fill.quantity for fill in fills), Decimal(0))


def a_report(
    reported: ReportStatus,
    fills: Sequence[BrokerExecution] = (),
    told: Sequence[BrokerExecution] | None = None,
    client_order_id: str = "c",
    terms: Terms | None = None,
) -> OrderReport:
    """A report that counts fills and tells of some of them, of all unless said otherwise."""
    return OrderReport(
        client_order_id=client_order_id,
        broker_order_id="b1",
        status=reported,
        filled_quantity=exact_sum(fills),
        executions=tuple(fills if told is None else told),
        terms=terms,
    )


def described(
    report: OrderReport,
    broker_order_id: str | None = None,
    *,
    age: timedelta = timedelta(),
    side: OrderSide = OrderSide.BUY,
    kind: OrderType = OrderType.LIMIT,
) -> OrderReport:
    """The report with what its order was when the broker took it, so long ago."""
    description = OrderDescription(
        symbol=Symbol("AAPL"), order_side=side, order_type=kind, accepted_at=datetime.now(UTC) - age
    )
    return replace(report, broker_order_id=broker_order_id or report.broker_order_id, description=description)


def a_trading_account(account_id: AccountId, organization_id: OrganizationId) -> TradingAccount:
    """An account as it is in the database before anything was changed."""
    return TradingAccount(
        id=account_id,
        organization_id=organization_id,
        name="First",
        broker="paper",
        environment=Environment.PAPER,
        slot=0,
        disabled=False,
        organization_disabled=False,
        entitlements=frozenset(),
        organization_epoch=1,
        account_epoch=1,
        now=datetime.now(UTC),
    )


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization with one account and one key that may do everything."""

    account: TradingAccount
    principal: Principal
    key: str

    def submission(
        self, command: Command | None = None, key: str | None = None, receipt: Receipt | None = None
    ) -> Submission:
        command = command or a_market_create()
        facts = {"action_type": type(command).__name__.removesuffix("Intent").upper()}
        action_id, hashed = ActionId(new_id()), command_hash(command)
        if key is not None:
            action_id = keyed_action_id(action_id, self.account.id, key, hashed)
        return Submission(
            action_id=action_id,
            intent_id=intent_of(command, IntentId(new_id())),
            receipt_id=ReceiptId(new_id()),
            account=self.account,
            principal=self.principal,
            command=command,
            command_hash=hashed,
            idempotency_key=key,
            receipt=receipt or receipt_of(self.account, Evaluation(command=facts, evaluated_at=self.account.now)),
        )


async def a_key(
    pool: Pool,
    organization: OrganizationId,
    environment: Environment = Environment.PAPER,
    permissions: frozenset[str] = PERMISSIONS,
) -> tuple[Principal, str]:
    text, presented = api_keys.mint(environment, os.urandom(api_keys.ENTROPY_BYTES))
    key_id = new_id()
    async with transaction(pool, Role.OPERATOR, organization) as connection:
        await add_api_key(
            connection,
            organization,
            key_id,
            presented,
            name="test",
            environment=environment,
            permissions=permissions,
        )
    principal = Principal(
        kind=PrincipalKind.API_KEY,
        id=str(key_id),
        organization_id=organization,
        environment=environment,
        permissions=permissions,
    )
    return principal, text


async def with_tightening_key(pool: Pool, tenant: Tenant) -> Tenant:
    """The tenant with another key, which has every permission but to loosen."""
    account = tenant.account
    principal, text = await a_key(pool, account.organization_id, account.environment, PERMISSIONS - {CONTROL_LOOSEN})
    return replace(tenant, principal=principal, key=text)


async def an_account(
    pool: Pool, organization: OrganizationId, environment: Environment = Environment.PAPER, broker: str = "paper"
) -> TradingAccount:
    account = AccountId(new_id())
    async with transaction(pool, Role.TENANT, organization) as connection:
        new = NewAccount(name="First", broker=broker, environment=environment)
        await open_account(connection, organization, account, new)
    found = await PostgresOrganizationStore(pool).find_account(organization, account)
    assert found is not None
    return found


def misspelled(key: str) -> str:
    """The key with another last sign, whatever it ends in."""
    return key[:-1] + ("0" if key[-1] != "0" else "1")


async def a_tenant(
    pool: Pool,
    *,
    environment: Environment = Environment.PAPER,
    key_environment: Environment | None = None,
    permissions: frozenset[str] = PERMISSIONS,
    entitlements: frozenset[str] = frozenset({TRADING_LIVE, CONTROLS_PREMIUM}),
    broker: str = "paper",
) -> Tenant:
    organization = OrganizationId(new_id())
    async with transaction(pool, Role.OPERATOR, organization) as connection:
        await add_organization(
            connection,
            organization,
            external_id=f"org_{organization.hex}",
            provider="dev",
            name="Acme",
            entitlements=entitlements,
        )
    account = await an_account(pool, organization, environment, broker)
    return Tenant(account, *await a_key(pool, organization, key_environment or environment, permissions))


async def begin_epochs(pool: Pool) -> None:
    """As whoever changes an account or an organization does with the change."""
    await pool.execute("update account_counters set control_epoch = control_epoch + 1")
    await pool.execute("update organizations set control_epoch = control_epoch + 1")


async def accept(pool: Pool, *submissions: Submission) -> list[Acceptance]:
    return await PostgresIntentStore(pool).accept_across_organizations(submissions)


def accepting(store: IntentStore) -> GroupCommit:
    """The accept step as the api has it, on a store."""
    write = store.accept_across_organizations
    return GroupCommit(write, write, DOUBTFUL, BLOCKED, time.monotonic)


def ids(pool: Pool) -> DatabaseClock:
    return DatabaseClock(pool)
