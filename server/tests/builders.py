"""Builds what tests need: valid by default, one override per test."""

import os
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from uuid import UUID

from openbell_server.adapters.postgres.connection import DatabaseClock, Pool
from openbell_server.adapters.postgres.intents import PostgresIntentStore
from openbell_server.adapters.postgres.organizations import PostgresOrganizationStore
from openbell_server.application.ports.stores import Acceptance, Submission
from openbell_server.domain import api_keys
from openbell_server.domain.accounts import CONTROLS_PREMIUM, TRADING_LIVE, Environment, TradingAccount
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, ReceiptId, Symbol, uuid7
from openbell_server.domain.intents import CancelIntent, Command, CreateIntent, command_hash
from openbell_server.domain.orders import OrderSide, OrderSpec, OrderType, RouteStrategy, TimeInForce
from openbell_server.domain.principals import PERMISSIONS, Principal
from openbell_server.domain.receipts import evaluate


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


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization with one account and one key that may do everything."""

    account: TradingAccount
    principal: Principal
    key: str

    def submission(self, command: Command | None = None, key: str | None = None) -> Submission:
        command = command or a_market_create()
        return Submission(
            action_id=ActionId(new_id()),
            intent_id=command.ref_intent_id if isinstance(command, CancelIntent) else IntentId(new_id()),
            receipt_id=ReceiptId(new_id()),
            account=self.account,
            principal=self.principal,
            command=command,
            command_hash=command_hash(command),
            idempotency_key=key,
            receipt=evaluate(self.account),
        )


async def a_tenant(
    pool: Pool,
    *,
    environment: Environment = Environment.PAPER,
    key_environment: Environment | None = None,
    permissions: frozenset[str] = PERMISSIONS,
    entitlements: frozenset[str] = frozenset({TRADING_LIVE, CONTROLS_PREMIUM}),
) -> Tenant:
    store = PostgresOrganizationStore(pool)
    organization, account = OrganizationId(new_id()), AccountId(new_id())
    await store.create_organization(
        organization, external_id=f"org_{organization.hex}", provider="dev", name="Acme", entitlements=entitlements
    )
    await store.create_account(organization, account, name="First", broker="paper", environment=environment)
    key_environment = key_environment or environment
    text, presented = api_keys.mint(key_environment, os.urandom(api_keys.ENTROPY_BYTES))
    key_id = new_id()
    await store.create_api_key(
        organization, key_id, presented, name="test", environment=key_environment, permissions=permissions
    )
    found = await store.find_account(organization, account)
    assert found is not None
    principal = Principal(
        kind="API_KEY",
        id=str(key_id),
        organization_id=organization,
        environment=key_environment,
        permissions=permissions,
    )
    return Tenant(found, principal, text)


async def accept(pool: Pool, *submissions: Submission) -> list[Acceptance]:
    return await PostgresIntentStore(pool).accept_across_organizations(submissions)


def ids(pool: Pool) -> DatabaseClock:
    return DatabaseClock(pool)
