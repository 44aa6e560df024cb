"""Limits on money: commands race with fills and pass none, and a back-test repeats every verdict."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Final

import uvloop

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.rule_books import PostgresRuleBookStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.application.intents.submit_intent import Submitted
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.controls.evaluate import exemption
from openbell_server.domain.controls.findings import Scope, Verdict
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.orders.intents import CancelIntent, CreateIntent
from proof.backtest import Rules, as_it_stands, backtested, ruled, submitting
from proof.figures import Figures
from proof.money_races import AT_ONCE, PRICE, race_for_funds, race_with_losses, set_prices, submitted, took
from proof.recording import SYMBOLS, Recorder
from support.builders.control_cases import CASES
from support.builders.control_commands import judge
from support.builders.tenant import Tenant, a_limit_create, a_tenant, an_account

KINDS: Final = ("SELF_MATCH", "DAY_NOTIONAL_MAX", "GROSS_MAX", "BUYING_POWER", "LOSS_MAX")
# The price of a SELL may be higher than its limit and the market's price.
BUFFER: Final = Fraction(105, 100)
AGE_MILLIS: Final = 3_600_000
# Orders that are on the wrong side of each other, whatever the rule says.
_CROSSING: Final = """
select count(*) from orders b join orders s on s.account_id = b.account_id and s.symbol = b.symbol
where b.standing <> 'CLOSED' and s.standing <> 'CLOSED' and b.order_side = 'BUY' and s.order_side <> 'BUY'
    and b.limit_price >= s.limit_price
"""
# What the account holds and may come to hold by its open orders, at the market's price.
_GROSS: Final = """
select coalesce(sum(greatest(abs(held + buys), abs(held - sells))), 0) * $2::integer
from (
    select symbol, sum(held) as held, sum(buys) as buys, sum(sells) as sells
    from (
        select symbol, quantity as held, 0 as buys, 0 as sells from positions where account_id = $1
        union all
        select symbol, 0, case when order_side = 'BUY' then quantity - filled_quantity else 0 end,
            case when order_side <> 'BUY' then quantity - filled_quantity else 0 end
        from orders where account_id = $1 and standing <> 'CLOSED'
    ) each_one
    group by symbol
) of_symbol
"""
_ACTIONS: Final = """
select a.action_type, a.order_side, a.quantity, a.limit_price, r.body from intent_actions a
join receipts r on r.account_id = a.account_id and r.receipt_id = a.receipt_id
where a.account_id = $1 order by a.action_no
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    commands: int
    # Of the first account; reached before the last command.
    day_value: str
    gross_value: str
    # Orders of two accounts under one limit of their organization.
    shared: int


SIZES = {
    "full": Size(commands=20_000, day_value="60000000", gross_value="700000", shared=2_000),
    "gate": Size(commands=320, day_value="600000", gross_value="300000", shared=64),
}


def prove(figures: Figures) -> None:
    wrong = sum(judge(case)[0].verdict is not _meant(case.passes) for case in CASES if case.code in KINDS)
    figures.shown("cases: pass, refuse, exact edge, missing", sum(case.code in KINDS for case in CASES))
    figures.exactly("cases that are decided otherwise than written", wrong, 0)
    with LocalServices() as services:
        url = services.postgres.url()
        migrate(url)
        uvloop.run(_prove(figures, url))


def _meant(passes: bool) -> Verdict:
    return Verdict.PASSED if passes else Verdict.REFUSED


async def _prove(figures: Figures, url: str) -> None:
    size = SIZES[figures.size]
    async with await open_pool(url, connections_max=1) as pool:
        # Nothing crashes here, so nothing need wait for the disk.
        await pool.execute("alter database postgres set synchronous_commit = off")
    async with await open_pool(url, connections_max=8) as pool:
        await _race_with_fills(figures, pool, size)
        await _share_a_day(figures, pool, size.shared)
        await race_for_funds(figures, pool)
        await race_with_losses(figures, pool)


async def _race_with_fills(figures: Figures, pool: Pool, size: Size) -> None:
    rules: Rules = {
        "SELF_MATCH": {},
        "DAY_NOTIONAL_MAX": {"value": size.day_value, "currency": "USD", "ref_max_age_millis": AGE_MILLIS},
        "GROSS_MAX": {"value": size.gross_value, "currency": "USD", "ref_max_age_millis": AGE_MILLIS},
    }
    tenant = await ruled(pool, rules)
    await set_prices(pool, tenant)
    book = await PostgresRuleBookStore(pool).rule_book(tenant.account)
    recorder = Recorder(pool, tenant, book, random.Random(11), open_about=120)
    refused, commands, races, crossing, beyond = Counter[str](), 0, 0, 0, 0
    submit = submitting(pool)
    while commands < size.commands:
        group = [recorder.command(free) for free in [recorder.free()] for _ in range(AT_ONCE)]
        facts = [None if isinstance(command, CancelIntent) else recorder.asked(command) for command in group]
        # What was sent before fills while these are judged.
        submits = [submitted(submit, tenant, command) for command in group]
        *outcomes, _ = await asyncio.gather(*submits, recorder.report())
        for command, asked, outcome in zip(group, facts, outcomes, strict=True):
            if outcome is None:
                continue
            commands += asked is not None and exemption(asked) is None
            if isinstance(outcome, Submitted):
                took(recorder, command, outcome)
            else:
                refused.update(outcome)
        races += 1
        if races % 10 == 0:
            crossing += await pool.fetchval(_CROSSING)
            beyond += await pool.fetchval(_GROSS, tenant.account.id, PRICE) > Decimal(size.gross_value)
            await pool.execute("analyze", timeout=300) if races % 500 == 0 else None
    figures.shown("commands that raise risk", commands)
    figures.shown("races of four commands with fills", races)
    figures.shown("fills", recorder.recorded["fills"])
    figures.exactly("pairs of open orders that could trade with each other, at any look", crossing, 0)
    figures.exactly("looks at which the account could come to hold more than it may", beyond, 0)
    for code in rules:
        figures.at_least(f"refused live by {code}", refused[code], 1)
    await _compare_day(figures, pool, tenant, Fraction(size.day_value))
    await pool.execute("analyze", timeout=300)
    tally = (await backtested(pool, tenant, rules)).tally
    figures.exactly("back-test: commands evaluated again", tally.intents, commands)
    figures.exactly("back-test: refused again, accepted live", tally.newly_refused, 0)
    figures.exactly("back-test: accepted again, refused live", tally.newly_accepted, 0)
    figures.exactly("back-test: undecided", tally.undecided, 0)
    for line in tally.by_rule.values():
        figures.exactly(f"back-test: refusals by {line.code} beyond those live", line.refused - refused[line.code], 0)


async def _compare_day(figures: Figures, pool: Pool, tenant: Tenant, limit: Fraction) -> None:
    """The sum that the rule keeps, and at every command, are those of the accepted commands in fractions."""
    total, beyond = Fraction(0), 0
    for row in await pool.fetch(_ACTIONS, tenant.account.id):
        receipt = json.loads(row["body"])
        if row["action_type"] == "CANCEL" or "exempt" in receipt:
            continue
        before = receipt["command"].get("before")
        value = _value(row["order_side"], Fraction(row["quantity"]), Fraction(row["limit_price"]))
        if before is not None:
            value -= _value(row["order_side"], Fraction(before["quantity"]), Fraction(before["limit_price"]))
        total += max(Fraction(0), value)
        beyond += total > limit
    kept = Fraction(await pool.fetchval("select accepted from control_days where subject = $1", str(tenant.account.id)))
    figures.shown("value accepted, of the limit", round(float(total / limit), 6))
    figures.exactly("commands accepted beyond the value of the day", beyond, 0)
    figures.exactly("sums of a day that differ from the accepted commands", int(kept != total), 0)


def _value(side: str, quantity: Fraction, limit: Fraction) -> Fraction:
    return quantity * (limit if side == "BUY" else max(limit, Fraction(PRICE)) * BUFFER)


async def _share_a_day(figures: Figures, pool: Pool, orders: int) -> None:
    """Two accounts under one limit of their organization, which fits two thirds of what they ask for."""
    tenant = await a_tenant(pool)
    account, limit = tenant.account, orders * 2 // 3 * 10 * 3
    address = Address(organization_id=account.organization_id, scope=Scope.ORGANIZATION)
    terms = RuleTerms(parameters={"value": str(limit), "currency": "USD"})
    await PostgresRuleStore(pool).save_rule(address, "DAY_NOTIONAL_MAX", terms, None, tenant.principal, None)
    await set_prices(pool, tenant)
    tenants = [
        await as_it_stands(pool, each)
        for each in (tenant, replace(tenant, account=await an_account(pool, account.organization_id)))
    ]
    submit, chance, accepted, refused = submitting(pool), random.Random(5), 0, 0
    for _ in range(orders // 16):
        asked = [(chance.choice(tenants), _order(chance)) for _ in range(16)]
        outcomes = await asyncio.gather(*(submitted(submit, *each) for each in asked))
        for (_, command), outcome in zip(asked, outcomes, strict=True):
            if isinstance(outcome, Submitted):
                accepted += int(command.spec.quantity) * 10
            else:
                refused += 1
    figures.shown("two accounts: orders", orders)
    figures.at_least("two accounts: refused", refused, 1)
    figures.exactly("two accounts: value beyond the organization's limit", max(0, accepted - limit), 0)
    # The largest order is worth 50.
    figures.at_most("two accounts: value that would have fit and was not let pass", max(0, limit - accepted), 49)


def _order(chance: random.Random) -> CreateIntent:
    """Worth 10 to 50; no two are equal, which is another rule's matter."""
    return replace(a_limit_create("10", str(chance.randrange(1, 6))), symbol=chance.choice(SYMBOLS))
