"""What rules cost a submit: as many as possible without rules, with some, and with many that count under the lock."""

import asyncio
import time
from decimal import Decimal
from itertools import count
from statistics import median
from typing import Any

import uvloop

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.identifiers import Symbol
from proof.figures import Figures
from support.builders.tenant import Tenant, a_tenant
from support.rest.rest_api import RestApi, create_body, rest_api

# Rounds, and seconds of each kind in a round.
SIZES = {"full": (9, 2.0), "gate": (1, 0.3)}
ACCOUNTS = 4
CALLERS = 8
Rules = list[tuple[str, Scope, dict[str, Any]]]
_SIZE: Rules = [("QTY_MAX", scope, {"quantity": "1000000"}) for scope in (Scope.ORGANIZATION, Scope.ACCOUNT, Scope.KEY)]
STATELESS: Rules = [
    *_SIZE,
    ("QTY_MIN", Scope.ACCOUNT, {"quantity": "1"}),
    ("RESTRICTED", Scope.ORGANIZATION, {"list": "DENY", "symbols": ["MSFT"]}),
]
_RATE = {"count": 1_000, "window_millis": 1_000}
MANY: Rules = [
    *STATELESS,
    ("QTY_MAX", Scope.SYMBOL, {"quantity": "1000000"}),
    *(("QTY_MIN", scope, {"quantity": "1"}) for scope in (Scope.ORGANIZATION, Scope.SYMBOL, Scope.KEY)),
    *(("PRICE_COLLAR", scope, {"up_percent": "10", "down_percent": "10"}) for scope in (Scope.ACCOUNT, Scope.KEY)),
    ("SIDE_NOT_ALLOWED", Scope.ACCOUNT, {"no_short": True}),
    ("DUPLICATE", Scope.ACCOUNT, {"window_millis": 1_000}),
    *(("RATE_ORDERS", scope, _RATE) for scope in (Scope.ORGANIZATION, Scope.ACCOUNT, Scope.KEY)),
    ("OPEN_ORDERS_MAX", Scope.ACCOUNT, {"count": 1_000_000}),
    ("OPEN_ORDERS_MAX", Scope.SYMBOL, {"count": 1_000_000}),
    ("POSITION_MAX", Scope.ACCOUNT, {"quantity": "1000000000"}),
    ("POSITION_MAX", Scope.SYMBOL, {"quantity": "1000000000"}),
]
KINDS = {"no rules": [], f"{len(STATELESS)} that count nothing": STATELESS, f"{len(MANY)} with some that count": MANY}
BARS = (0.8, 0.4)


def measure(figures: Figures, database: str) -> None:
    # In the loop that the api runs in.
    uvloop.run(_measure(figures, database))


async def _measure(figures: Figures, database: str) -> None:
    rounds, seconds = SIZES[figures.size]
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    refused = 0
    async with await open_pool(database, connections_max=CALLERS) as pool, rest_api(pool) as api:
        for _ in range(rounds):
            for kind, rules in KINDS.items():
                # New ones each time, so that no kind has more behind it than another.
                tenants = [await _with_rules(pool, rules) for _ in range(ACCOUNTS)]
                done, wrong = await _submit(api, tenants, seconds)
                rates[kind].append(done / seconds)
                refused += wrong
    figures.shown("rounds of submits without rules and with them", rounds)
    figures.exactly("submits that were not accepted", refused, 0)
    if figures.size != "full":
        return
    bare, *others = KINDS
    figures.shown("submits a second without rules, median", round(median(rates[bare])))
    for kind, bar in zip(others, BARS, strict=True):
        figures.shown(f"submits a second with {kind}, median", round(median(rates[kind])))
        pairs = [with_rules / without for with_rules, without in zip(rates[kind], rates[bare], strict=True)]
        figures.at_least(f"with {kind}, as a part of those without, median of pairs", round(median(pairs), 3), bar)


async def _with_rules(pool: Pool, rules: Rules) -> Tenant:
    tenant = await a_tenant(pool)
    account, store = tenant.account, PostgresRuleStore(pool)
    for code, scope, parameters in rules:
        address = Address(
            organization_id=account.organization_id,
            scope=scope,
            account_id=account.id if scope in {Scope.ACCOUNT, Scope.SYMBOL} else None,
            symbol=Symbol("AAPL") if scope is Scope.SYMBOL else None,
            api_key_id=tenant.principal.id if scope is Scope.KEY else None,
        )
        await store.save_rule(address, code, RuleTerms(parameters=parameters), None, tenant.principal, None)
    if rules:
        given = [(Symbol("AAPL"), Decimal(100), None)]
        await PostgresMarketStore(pool).give_prices(account.organization_id, account.broker, given)
        heard = "update account_counters set positions_as_of = clock_timestamp() where account_id = $1"
        await pool.execute(heard, account.id)
    return tenant


async def _submit(api: RestApi, tenants: list[Tenant], seconds: float) -> tuple[int, int]:
    """How many were accepted in the time, and how many were not."""
    numbers = count(1)

    async def call(caller: int, end: float) -> tuple[int, int]:
        accepted, wrong = 0, 0
        while not accepted + wrong or time.monotonic() < end:
            body = create_body("Limit", quantity=str(next(numbers)), price="100")
            answer = await api.submit(tenants[caller % len(tenants)], body)
            accepted += answer.status_code == 202
            wrong += answer.status_code != 202
        return accepted, wrong

    # Each once before the clock starts: rules are read, and statements prepared.
    first = await asyncio.gather(*(call(caller, 0.0) for caller in range(CALLERS)))
    end = time.monotonic() + seconds
    done = await asyncio.gather(*(call(caller, end) for caller in range(CALLERS)))
    return sum(accepted for accepted, _ in done), sum(wrong for _, wrong in [*first, *done])
