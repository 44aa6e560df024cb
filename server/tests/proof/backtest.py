"""A long history is judged again from its record alone: every verdict is the one that was given live."""

import random
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import uvloop

from openbell_server.adapters.calendars.table import load_calendars
from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore
from openbell_server.adapters.postgres.connection import DOUBTFUL, UNAVAILABLE, Pool, open_pool
from openbell_server.adapters.postgres.controls.backtest_history import PostgresHistoryStore
from openbell_server.adapters.postgres.controls.calendars import PostgresSessionChanges
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.markets import PostgresMarketStore
from openbell_server.adapters.postgres.controls.rule_books import PostgresRuleBookStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.intents.accept_with_counts import PostgresCountedAcceptStore
from openbell_server.adapters.postgres.intents.intents import PostgresIntentStore
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.application.controls.backtest_rules import Backtested, BacktestRequest, BacktestRules, ProposedRule
from openbell_server.application.controls.check_command import CheckCommand
from openbell_server.application.intents.account_cache import RecentAccounts
from openbell_server.application.intents.submit_intent import SubmitIntent
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.controls.evaluate import exemption
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.errors import ControlsRefused
from openbell_server.domain.orders.intents import CancelIntent, Command, CommandRequest
from openbell_server.processes.lifecycle import tune_garbage_collection
from proof.figures import Figures
from proof.recording import ANALYZE_SECONDS, SET_MAX, Recorder
from support.builders.tenant import Tenant, a_tenant, accepting, ids
from support.rest.rest_api import RecordedHints

Rules = dict[str, dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many commands for an order, or for more of one, and how many of them by the product's own submit."""

    commands: int
    submitted: int
    # How many orders stay open.
    open_about: int
    open_of_symbol_max: int
    position_max: str

    @property
    def rules(self) -> Rules:
        """One kind of everything that is counted, and one that is not; the account's own."""
        return {
            "QTY_MAX": {"quantity": "1000"},
            "DUPLICATE": {"window_millis": 1_000},
            "RATE_ORDERS": {"count": 57, "window_millis": 3},
            "OPEN_ORDERS_MAX": {"count": self.open_of_symbol_max, "per": "SYMBOL"},
            "POSITION_MAX": {"quantity": self.position_max},
        }


SIZES = {
    "full": Size(commands=100_000, submitted=1_000, open_about=380, open_of_symbol_max=60, position_max="9000"),
    "gate": Size(commands=600, submitted=60, open_about=200, open_of_symbol_max=28, position_max="2000"),
}
SECONDS_MAX = 20.0


def prove(figures: Figures) -> None:
    with LocalServices() as services:
        url = services.postgres.url()
        migrate(url)
        # As the api runs.
        tune_garbage_collection()
        uvloop.run(_prove(figures, url))


async def _prove(figures: Figures, url: str) -> None:
    size = SIZES[figures.size]
    commands, submitted, rules = size.commands, size.submitted, size.rules
    async with await open_pool(url, connections_max=1) as pool:
        # Nothing crashes here, so nothing need wait for the disk.
        await pool.execute("alter database postgres set synchronous_commit = off")
    async with await open_pool(url, connections_max=8) as pool:
        tenant = await ruled(pool, rules)
        begun = time.monotonic()
        book = await PostgresRuleBookStore(pool).rule_book(tenant.account)
        recorder = Recorder(pool, tenant, book, random.Random(7), size.open_about)
        refused = await _submit(pool, tenant, recorder, submitted)
        figures.shown("commands through the product's own submit", submitted)
        await recorder.record(commands - submitted)
        figures.shown("seconds to record all of them", round(time.monotonic() - begun, 1))
        refused += recorder.refused_by
        for what in ("CreateIntent", "ReplaceIntent", "CancelIntent", "refused", "fills", "reports"):
            figures.shown(f"recorded in sets: {what}", recorder.recorded[what])
        for code in rules:
            figures.at_least(f"refused live by {code}", refused[code], 1)
        await pool.execute("analyze", timeout=ANALYZE_SECONDS)
        begun = time.monotonic()
        again = await backtested(pool, tenant, rules)
        seconds = round(time.monotonic() - begun, 1)
    tally = again.tally
    figures.exactly("commands evaluated again", tally.intents, commands)
    figures.exactly("verdicts that differ: refused again, accepted live", tally.newly_refused, 0)
    figures.exactly("verdicts that differ: accepted again, refused live", tally.newly_accepted, 0)
    figures.exactly("undecided", tally.undecided, 0)
    for line in tally.by_rule.values():
        figures.exactly(f"refusals by {line.code} beyond those of before", line.refused - refused[line.code], 0)
    if figures.size == "full":
        figures.at_most("seconds to evaluate all of them again", seconds, SECONDS_MAX)
    else:
        figures.shown("seconds to evaluate all of them again", seconds)


async def ruled(pool: Pool, rules: Rules) -> Tenant:
    """An account with all of the rules, whose positions the broker has told."""
    tenant = await a_tenant(pool)
    account = tenant.account
    address = Address(organization_id=account.organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    for code, parameters in rules.items():
        terms = RuleTerms(parameters=parameters)
        await PostgresRuleStore(pool).save_rule(address, code, terms, None, tenant.principal, None)
    await pool.execute(
        "update account_counters set positions_as_of = clock_timestamp() where account_id = $1", account.id
    )
    return await as_it_stands(pool, tenant)


async def as_it_stands(pool: Pool, tenant: Tenant) -> Tenant:
    account = await PostgresOrganizationStore(pool).find_account(tenant.account.organization_id, tenant.account.id)
    assert account is not None
    return replace(tenant, account=account)


def submitting(pool: Pool) -> SubmitIntent:
    """The use case as the api has it."""
    organizations, intents = PostgresOrganizationStore(pool), PostgresIntentStore(pool)
    counted = PostgresCountedAcceptStore(pool)
    judge = CheckCommand(PostgresRuleBookStore(pool), intents, PostgresMarketStore(pool), counted, None)
    return SubmitIntent(
        RecentAccounts(organizations, ids(pool).now),
        intents,
        accepting(intents),
        PostgresControlStore(pool),
        judge,
        ids(pool),
        BROKERS,
        RecordedHints(),
        DOUBTFUL,
        UNAVAILABLE,
    )


async def _submit(pool: Pool, tenant: Tenant, recorder: Recorder, commands: int) -> Counter[str]:
    """Commands one after the other through the use case itself; what refused them."""
    submit = submitting(pool)
    refused: Counter[str] = Counter()
    done = 0
    while done < commands:
        free = recorder.free()
        for _ in range(min(SET_MAX, commands - done)):
            command = recorder.command(free)
            asked = None if isinstance(command, CancelIntent) else recorder.asked(command)
            done += asked is not None and exemption(asked) is None

            async def decode(_: BrokerDefinition, command: Command = command) -> CommandRequest:
                return CommandRequest(command=command)

            try:
                submitted = await submit(tenant.principal, tenant.account.id, decode, lambda: None)
            except ControlsRefused as refusal:
                lines: Any = refusal.receipt["rules"]
                refused.update({line["code"] for line in lines if line["verdict"] == "REFUSED"})
                continue
            action = submitted.recorded.action
            recorder.took(command, action.id, action.intent_id, asked, action.created_at)
        await recorder.report()
    return refused


async def backtested(pool: Pool, tenant: Tenant, rules: Rules) -> Backtested:
    use_case = BacktestRules(
        PostgresOrganizationStore(pool),
        PostgresRuleBookStore(pool),
        PostgresHistoryStore(pool),
        BROKERS,
        load_calendars(),
        PostgresSessionChanges(pool),
    )
    proposed = [
        ProposedRule(scope=Scope.ACCOUNT, code=code, parameters=parameters) for code, parameters in rules.items()
    ]
    return await use_case(tenant.principal, BacktestRequest(account_id=tenant.account.id, rules=proposed))
