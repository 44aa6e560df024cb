"""Commands race with fills, balances and prices: none costs more than there is, none raises risk after a loss."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.rule_books import PostgresRuleBookStore
from openbell_server.adapters.postgres.money.books import PostgresBookStore
from openbell_server.adapters.postgres.money.losses import PostgresLossStore
from openbell_server.adapters.postgres.money.marks import PostgresMarks
from openbell_server.application.intents.submit_intent import SubmitIntent, Submitted
from openbell_server.application.money.measure_losses import MeasureLosses
from openbell_server.application.money.save_books import SaveBooks
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.errors import ControlsRefused, Problem
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.orders.intents import CancelIntent, Command, CommandRequest, CreateIntent
from openbell_server.domain.orders.order_terms import OrderSide
from proof.backtest import Rules, backtested, ruled, submitting
from proof.figures import Figures
from proof.recording import SYMBOLS, Recorder
from support.builders.tenant import Tenant, a_limit_create
from support.rest.rest_api import RecordedHints

PRICE: Final = 125
# Commands at the same time, beside fills of the orders before them.
AT_ONCE: Final = 4
# An order's quantity, or that of a REPLACE on its way if it is larger.
_QUANTITY: Final = """greatest(o.quantity, (
    select max(a.quantity) from action_states s
    join intent_actions a on a.account_id = s.account_id and a.intent_id = s.intent_id and a.seq = s.seq
    where s.account_id = o.account_id and s.intent_id = o.order_id and s.action_type = 'REPLACE'
        and s.settled_at is null
))"""
# What everything that was accepted costs: fills, and what may still fill, at the limit prices.
_SPENT: Final = f"""
select coalesce(sum(case when o.standing = 'CLOSED' then o.filled_quantity else {_QUANTITY} end * o.limit_price), 0)
from orders o where o.account_id = $1
"""
_FILLED: Final = "select coalesce(sum(filled_quantity * limit_price), 0) from orders where account_id = $1"
# As a broker reports it: of the orders that it has answered, each with the terms that it has.
_REPORT: Final = """
with reported as materialized (
    update action_states s set settled_at = s.settled_at - interval '10 seconds'
    where s.account_id = $2 and s.state = 'ACKED' and s.settled_at > clock_timestamp() - interval '9 seconds'
)
insert into account_balances (organization_id, account_id, currency, buying_power, as_of, read_at)
select $1, $2, 'USD', $3::numeric - coalesce(sum(
        case when o.standing = 'CLOSED' then o.filled_quantity else o.quantity end * o.limit_price
    ), 0), statement_timestamp(), statement_timestamp()
from orders o
join action_states s on s.account_id = o.account_id and s.intent_id = o.order_id and s.seq = 1
where o.account_id = $2 and s.settled_at is not null
on conflict (account_id) do update set buying_power = excluded.buying_power, as_of = excluded.as_of
"""
# Actions that were accepted between a breach and the next change of a rule, and what the limit found of them.
_AFTER_BREACH: Final = """
with breaches as (
    select e.event_no, (
        select min(c.event_no) from account_events c
        where c.account_id = e.account_id and c.kind = $3 and c.event_no > e.event_no
    ) as until
    from account_events e where e.account_id = $1 and e.kind = $2
)
select a.order_side, r.body::jsonb ? 'exempt' as is_exempt, l.line #>> '{inputs,loss_limit}' is not null as is_reducing
from breaches b
join account_events e on e.account_id = $1 and e.kind = $4 and e.body is null and e.event_no > b.event_no
    and e.event_no < coalesce(b.until, 9223372036854775807)
join intent_actions a on a.account_id = e.account_id and a.intent_id = e.intent_id and a.seq = e.seq
join receipts r on r.account_id = a.account_id and r.receipt_id = a.receipt_id
left join lateral (
    select line from jsonb_array_elements(r.body::jsonb -> 'rules') line where line ->> 'code' = 'LOSS_MAX' limit 1
) l on true
where a.action_type <> 'CANCEL'
"""
# The largest position, long or short, that the orders of each symbol can lead to.
_LARGEST: Final = f"""
select symbol, greatest(abs(sum(held) + sum(buys)), abs(sum(held) - sum(sells))) as largest
from (
    select symbol, quantity as held, 0 as buys, 0 as sells from positions where account_id = $1
    union all
    select symbol, 0, case when order_side = 'BUY' then {_QUANTITY} - filled_quantity else 0 end,
        case when order_side <> 'BUY' then {_QUANTITY} - filled_quantity else 0 end
    from orders o where account_id = $1 and standing <> 'CLOSED'
) each_one
group by symbol
"""
# What went in and out with every trade; with the value of what is held, this is the profit.
_FLOWS: Final = """
select e.quantity, e.price, o.order_side from executions e
join orders o on o.account_id = e.account_id and o.order_id = e.order_id
where e.account_id = $1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceSize:
    commands: int
    buying_power: str
    # Limits on losses for each kind of breach, and races under each.
    limits: int
    races: int


SIZES: Final = {
    "full": RaceSize(commands=4_000, buying_power="400000", limits=50, races=12),
    "gate": RaceSize(commands=40, buying_power="100000", limits=2, races=8),
}


async def submitted(submit: SubmitIntent, tenant: Tenant, command: Command) -> Submitted | list[str] | None:
    """What was recorded, or the rules that refused; None if its order has filled or ended meanwhile."""

    async def decode(_: BrokerDefinition) -> CommandRequest:
        return CommandRequest(command=command)

    try:
        return await submit(tenant.principal, tenant.account.id, decode, lambda: None)
    except ControlsRefused as refusal:
        lines: Any = refusal.receipt["rules"]
        return [line["code"] for line in lines if line["verdict"] == "REFUSED"]
    except Problem as problem:
        if problem.code in {"order_terminal", "quantity_not_above_filled"}:
            return None
        raise


def took(recorder: Recorder, command: Command, outcome: Submitted) -> None:
    action = outcome.recorded.action
    if isinstance(command, CreateIntent) or action.intent_id in recorder.working:
        asked = None if isinstance(command, CancelIntent) else recorder.asked(command)
        recorder.took(command, action.id, action.intent_id, asked, action.created_at)
    else:
        # Its order has ended meanwhile.
        recorder.doors.append(action.id)


async def set_prices(pool: Pool, tenant: Tenant, price: int = PRICE) -> None:
    """Every symbol is a share in dollars, at one price."""
    for symbol in SYMBOLS:
        await pool.execute(
            "insert into instruments (organization_id, broker, symbol, asset_class, quote_currency, tradable,"
            " fractional, multiplier, as_of) values ($1, 'paper', $2, 'us_equity', 'USD', true, true, 1, now())"
            " on conflict do nothing",
            tenant.account.organization_id,
            symbol,
        )
        await pool.execute(
            "insert into reference_prices (organization_id, broker, symbol, price, source, as_of)"
            " values ($1, 'paper', $2, $3, 'quote', now()) on conflict (organization_id, broker, symbol)"
            " do update set price = excluded.price, as_of = excluded.as_of",
            tenant.account.organization_id,
            symbol,
            price,
        )


async def race_for_funds(figures: Figures, pool: Pool) -> None:
    """Orders that buy race with fills and with reports of the broker, which come when some are on their way."""
    size = SIZES[figures.size]
    rules: Rules = {"BUYING_POWER": {"currency": "USD"}}
    tenant, power = await ruled(pool, rules), Decimal(size.buying_power)
    await set_prices(pool, tenant)
    book = await PostgresRuleBookStore(pool).rule_book(tenant.account)
    recorder = Recorder(pool, tenant, book, random.Random(17), open_about=60)
    submit, refused = submitting(pool), Counter[str]()
    commands = races = beyond = 0

    async def report() -> None:
        await pool.execute(_REPORT, tenant.account.organization_id, tenant.account.id, power)

    await report()
    while commands < size.commands:
        group = [_buying(recorder.command(free)) for free in [recorder.free()] for _ in range(AT_ONCE)]
        told = (recorder.report(), report()) if races % 3 else (recorder.report(),)
        outcomes = await asyncio.gather(*(submitted(submit, tenant, command) for command in group), *told)
        for command, outcome in zip(group, outcomes[:AT_ONCE], strict=True):
            commands += 1
            if isinstance(outcome, Submitted):
                took(recorder, command, outcome)
            else:
                refused.update(outcome or [])
        races += 1
        beyond += await pool.fetchval(_SPENT, tenant.account.id) > power
        if races % 100 == 0:
            await pool.execute("analyze", timeout=300)
            # A deposit of what was filled, so that there is something to race for.
            power = Decimal(size.buying_power) + await pool.fetchval(_FILLED, tenant.account.id)
    figures.shown("buying power: races of four commands with fills and reports", races)
    figures.at_least("buying power: refused", refused["BUYING_POWER"], 1)
    figures.exactly("buying power: looks at which accepted orders cost more than there is", beyond, 0)
    await _fits_exactly(figures, pool, tenant, submit, recorder, power)
    await pool.execute("analyze", timeout=300)
    tally = (await backtested(pool, tenant, rules)).tally
    differing = tally.newly_refused + tally.newly_accepted + tally.undecided
    figures.exactly("buying power: verdicts that differ in the back-test", differing, 0)


def _buying(command: Command) -> Command:
    return replace(command, order_side=OrderSide.BUY) if isinstance(command, CreateIntent) else command


async def _fits_exactly(
    figures: Figures, pool: Pool, tenant: Tenant, submit: SubmitIntent, recorder: Recorder, power: Decimal
) -> None:
    """Once the broker has answered and reported everything, an order that costs just what is left is accepted."""
    await recorder.report()
    await pool.execute(_REPORT, tenant.account.organization_id, tenant.account.id, power)
    left = power - await pool.fetchval(_SPENT, tenant.account.id)
    outcomes = [
        await submitted(submit, tenant, a_limit_create(str(price), "1")) for price in (left + Decimal("0.01"), left)
    ]
    wrong = [outcome != ["BUYING_POWER"] for outcome in outcomes[:1]] + [not isinstance(outcomes[1], Submitted)]
    figures.exactly("buying power: orders at the exact edge that are decided wrongly", sum(wrong), 0)


@dataclass(slots=True)
class _Loser:
    """An account whose prices move, and whose losses are limited again and again."""

    pool: Pool
    tenant: Tenant
    recorder: Recorder
    submit: SubmitIntent
    measure: MeasureLosses
    chance: random.Random
    refused: Counter[str]
    grown: int = 0

    async def race(self, price: int) -> None:
        group = [self.recorder.command(free) for free in [self.recorder.free()] for _ in range(AT_ONCE)]
        *outcomes, _, _, _ = await asyncio.gather(
            *(submitted(self.submit, self.tenant, command) for command in group),
            self.recorder.report(),
            set_prices(self.pool, self.tenant, price),
            self.sweep(),
        )
        for command, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, Submitted):
                took(self.recorder, command, outcome)
            else:
                self.refused.update(outcome or [])

    async def sweep(self) -> None:
        await self.measure.sweep([self.tenant.account.slot])
        assert not self.measure.failures, self.measure.failures

    async def limit(self, on_breach: str) -> None:
        """Allow a little more than was lost."""
        lost = await self.pool.fetchval(
            "select max(lost_from_highest) from loss_marks where account_id = $1", self.tenant.account.id
        )
        account = self.tenant.account
        address = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
        value = max(Decimal(0), lost or Decimal(0)) + self.chance.randrange(1_000, 20_000)
        terms = RuleTerms(
            parameters={
                "value": str(value),
                "currency": "USD",
                "measured_from": "HIGHEST",
                "on_breach": on_breach,
            }
        )
        await PostgresRuleStore(self.pool).save_rule(address, "LOSS_MAX", terms, None, self.tenant.principal, None)

    async def breaches(self) -> int:
        found: int = await self.pool.fetchval(
            "select count(*) from account_events where account_id = $1 and kind = $2",
            self.tenant.account.id,
            EventKind.LOSS_LIMIT_EXCEEDED,
        )
        return found

    async def largest(self) -> dict[str, Decimal]:
        rows = await self.pool.fetch(_LARGEST, self.tenant.account.id)
        return {row["symbol"]: row["largest"] for row in rows}


async def race_with_losses(figures: Figures, pool: Pool) -> None:
    size, total, books = SIZES[figures.size], Counter[str](), PostgresBookStore(pool)
    for on_breach in ("HALTED", "REDUCE_ONLY"):
        account = await _loser(pool)
        for number in range(size.limits):
            await account.sweep()
            await account.limit(on_breach)
            # As executors do: a measurement reads only what happened since.
            await SaveBooks(books, books, events_behind=1)([account.tenant.account.slot])
            await _until_lost(account, size.races, total)
            total["profits that differ"] += await _profit_differs(account)
            if number % 20 == 19:
                await pool.execute("analyze", timeout=300)
        kinds = (EventKind.LOSS_LIMIT_EXCEEDED, EventKind.CONTROL_CHANGED, EventKind.INTENT_ACTION)
        for row in await pool.fetch(_AFTER_BREACH, account.tenant.account.id, *kinds):
            if not row["is_exempt"] and not (on_breach == "REDUCE_ONLY" and row["is_reducing"]):
                total["accepted after"] += 1
            total["reducing"] += row["is_reducing"] and not row["is_exempt"]
        total["breaches"] += await account.breaches()
        total["refused"] += account.refused["LOSS_MAX"]
        total["grown"] += account.grown
    figures.shown("losses: races of four commands with fills, prices and a measurement", total["races"])
    figures.at_least("losses: limits exceeded", total["breaches"], 1)
    figures.at_least("losses: refused", total["refused"], 1)
    # Few races may have none.
    figures.at_least(
        "losses: accepted after it because they only reduce", total["reducing"], 1 if figures.size == "full" else 0
    )
    figures.exactly("losses: accepted after it though they may raise risk", total["accepted after"], 0)
    figures.exactly("losses: positions that could grow after the limit was exceeded", total["grown"], 0)
    figures.exactly("losses: profits that differ from all trades in fractions", total["profits that differ"], 0)


async def _loser(pool: Pool) -> _Loser:
    tenant = await ruled(pool, {})
    await set_prices(pool, tenant)
    book = await PostgresRuleBookStore(pool).rule_book(tenant.account)
    chance = random.Random(23)
    measure = MeasureLosses(
        PostgresLossStore(pool),
        PostgresOrganizationStore(pool),
        PostgresRuleBookStore(pool),
        PostgresBookStore(pool),
        PostgresMarks(pool),
        PostgresMarketStore(pool),
        RecordedHints(),
    )
    recorder = Recorder(pool, tenant, book, chance, open_about=60)
    return _Loser(pool, tenant, recorder, submitting(pool), measure, chance, Counter())


async def _until_lost(account: _Loser, races: int, total: Counter[str]) -> None:
    """Race until the limit is exceeded, and a few more times; after it no position can grow."""
    before, largest = await account.breaches(), dict[str, Decimal]()
    for _ in range(races):
        await account.race(PRICE + account.chance.choice((-40, -20, -5, 5, 20, 40)))
        total["races"] += 1
        if await account.breaches() == before:
            continue
        now = await account.largest()
        account.grown += sum(now[symbol] > most for symbol, most in largest.items())
        largest = now


async def _profit_differs(account: _Loser) -> int:
    """Whether the measured profit is not what all trades brought and what is held is worth."""
    price = PRICE + account.chance.randrange(-30, 30)
    await set_prices(account.pool, account.tenant, price)
    await account.sweep()
    account_id = account.tenant.account.id
    profit, held = Fraction(0), Fraction(0)
    for row in await account.pool.fetch(_FLOWS, account_id):
        sign = 1 if row["order_side"] == "BUY" else -1
        profit -= sign * Fraction(row["quantity"]) * Fraction(row["price"])
        held += sign * Fraction(row["quantity"])
    kept = await account.pool.fetchval("select profit from loss_marks where account_id = $1", account_id)
    return int(kept is not None and Fraction(kept) != profit + held * price)
