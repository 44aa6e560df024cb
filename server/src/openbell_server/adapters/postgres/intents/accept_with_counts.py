"""Accepts a command in the transaction that counted for its rules, under the account's lock."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

import asyncpg

from openbell_server.adapters.postgres import named_queries
from openbell_server.adapters.postgres.connection import Connection, PostgresStore, Role, act_as, transaction
from openbell_server.adapters.postgres.intents.intents import accept
from openbell_server.adapters.postgres.market_rows import (
    read_instruments,
    read_losses,
    read_prices,
    read_rates,
    want_symbols,
)
from openbell_server.application.controls.ports.rules import CountedFacts, Counting
from openbell_server.application.ports.accept_step import Acceptance, AcceptStatus, Submission
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.controls.facts import Exposure, Holding, Need, Rate
from openbell_server.domain.controls.kinds.day_values import DayValue
from openbell_server.domain.controls.kinds.repeats import SubmitRate
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.rules import Rule
from openbell_server.domain.identifiers import AccountId, ActionId, IntentId, OrganizationId, ReceiptId, Symbol
from openbell_server.domain.money.balances import FreeBuyingPower
from openbell_server.domain.money.losses import LossMark

_queries = named_queries.load("accept_with_counts")


async def read_facts(
    connection: Connection, organization_id: OrganizationId, account_id: AccountId, question: Counting
) -> CountedFacts:
    """Count in the caller's transaction, which must hold the account's lock."""
    command = question.asked
    wants_exposure, wants_equals = Need.EXPOSURE in question.needs, Need.DUPLICATES in question.needs
    wants_others = Need.OTHERS in question.needs
    row = await _queries.counted_facts(
        connection,
        organization_id=organization_id,
        account_id=account_id,
        action_id=question.action_id,
        intent_id=question.intent_id,
        key=question.idempotency_key,
        symbol=command.symbol,
        order_side=command.order_side,
        order_type=command.order_type,
        quantity=command.terms.quantity,
        limit_price=command.terms.limit_price,
        stop_price=command.terms.stop_price,
        time_in_force=command.terms.time_in_force,
        wants_exposure=wants_exposure,
        wants_equals=wants_equals,
        wants_others=wants_others,
        window_millis=question.window_millis,
    )
    others, rates = None, dict[tuple[str, str], Rate]()
    if wants_others:
        quantities = dict(zip(row["other_symbols"], row["other_quantities"], strict=True))
        others, rates = await _priced(connection, organization_id, question, quantities)
    losses, funds = dict[tuple[str, str], LossMark](), None
    if Need.LOSSES in question.needs:
        losses = await read_losses(connection, organization_id, account_id)
    if Need.FUNDS in question.needs:
        funds = await _free_buying_power(connection, organization_id, account_id, question.action_id)
    return CountedFacts(
        now=row["now"],
        epochs=(row["organization_epoch"], row["account_epoch"]),
        is_replay=row["is_replay"],
        exposure=_exposure(row) if wants_exposure else None,
        equal_orders=row["equal_orders"] if wants_equals else None,
        others=others,
        rates_of_exchange=rates,
        losses=losses,
        funds=funds,
    )


async def _priced(
    connection: Connection, organization_id: OrganizationId, question: Counting, quantities: dict[Symbol, Decimal]
) -> tuple[list[Holding], dict[tuple[str, str], Rate]]:
    """What is held in each symbol with its price, and the rates that its value needs."""
    if not quantities:
        return [], {}
    symbols = list(quantities)
    prices = await read_prices(connection, organization_id, question.broker, symbols)
    instruments = await read_instruments(connection, organization_id, question.broker, symbols)
    quoted = {instrument.quote_currency for instrument in instruments.values()}
    pairs = [(quote, other) for quote in sorted(quoted) for other in question.currencies if quote != other]
    holdings = [
        Holding(symbol=symbol, quantity=quantity, price=prices.get(symbol), instrument=instruments.get(symbol))
        for symbol, quantity in quantities.items()
    ]
    return holdings, await read_rates(connection, organization_id, pairs) if pairs else {}


async def _free_buying_power(
    connection: Connection, organization_id: OrganizationId, account_id: AccountId, action_id: ActionId | None
) -> FreeBuyingPower | None:
    row = await _queries.free_buying_power(
        connection, organization_id=organization_id, account_id=account_id, action_id=action_id
    )
    return None if row is None else FreeBuyingPower(**row)


def _exposure(row: asyncpg.Record) -> Exposure:
    position_as_of = row["position_as_of"]
    return Exposure(
        # Until the broker reported its positions, our count may be incomplete.
        position=None if position_as_of is None else row["position"] or Decimal(0),
        position_as_of=position_as_of,
        working_buys=row["working_buys"],
        working_sells=row["working_sells"],
        open_orders=row["open_orders"],
        open_orders_of_symbol=row["open_orders_of_symbol"],
        open_orders_of_side=row["open_orders_of_side"],
        matching_orders=row["matching_orders"],
        matching_price=row["matching_price"],
    )


async def keep_refusal(
    connection: Connection,
    organization_id: OrganizationId,
    account_id: AccountId,
    receipt_id: ReceiptId,
    receipt: Receipt,
    action: tuple[IntentId, int] | None = None,
) -> None:
    """Number, chain and store the receipt of a refusal; action is set if the command was recorded before.

    A command that was not recorded has no other event than that of its refusal.
    """
    intent_id, seq = action or (None, None)
    await _queries.keep_refusal(
        connection,
        organization_id=organization_id,
        account_id=account_id,
        receipt_id=receipt_id,
        intent_id=intent_id,
        seq=seq,
        receipt=receipt.text,
    )
    if action is None:
        body = json.dumps({"receipt_id": str(receipt_id), "codes": receipt.refusals, **receipt.terms()})
        await _queries.append_refusal(connection, organization_id=organization_id, account_id=account_id, body=body)


def _day_rule(rule: Rule) -> DayValue:
    assert isinstance(rule.parameters, DayValue)
    return rule.parameters


@dataclass(frozen=True, slots=True)
class PostgresCountedAccept:
    """Implements CountedAccept."""

    connection: Connection
    account: TradingAccount
    facts: CountedFacts
    # Of its transaction, except during the accept step.
    role: Role

    async def judged(self, rules: Sequence[Rule], *, count: bool) -> dict[tuple[str, str], Sequence[datetime]]:
        found: dict[tuple[str, str], Sequence[datetime]] = {(rule.scope, rule.subject): [] for rule in rules}
        rates = [rule.parameters for rule in rules if isinstance(rule.parameters, SubmitRate)]
        assert len(rates) == len(rules), "every rule must be a SubmitRate rule"
        places = {
            "organization_id": self.account.organization_id,
            "scopes": [rule.scope for rule in rules],
            "subjects": [rule.subject for rule in rules],
            "limits": [rate.count for rate in rates],
        }
        if count:
            rows = _queries.count_judged(self.connection, **places, judged_at=self.facts.now)
        else:
            rows = _queries.read_judged(self.connection, **places)
        return found | {(row["scope"], row["subject"]): row["judged"] async for row in rows}

    async def day_values(self, rules: Sequence[Rule], *, lock: bool) -> dict[tuple[str, str], Decimal]:
        # The value of a day in a zone that this server does not know is missing.
        days = [(rule, _day_rule(rule).day_of(self.facts.now)) for rule in rules]
        known = [(rule, day) for rule, day in days if day is not None]
        read = _queries.lock_day_values if lock else _queries.read_day_values
        places = self._places([rule for rule, _ in known])
        rows = [row async for row in read(self.connection, **places, dates=[day for _, day in known])]
        found = {(str(rule.scope), rule.subject): Decimal(0) for rule, _ in known}
        return found | {(row["scope"], row["subject"]): row["accepted"] for row in rows}

    async def add_day_values(self, rules: Sequence[Rule], values: Sequence[Decimal]) -> None:
        await act_as(self.connection, self.role)
        await _queries.add_day_values(self.connection, **self._places(rules), amounts=values)

    async def reserve(self, action_id: ActionId, currency: str, amount: Decimal) -> None:
        await act_as(self.connection, self.role)
        await _queries.reserve_funds(
            self.connection,
            organization_id=self.account.organization_id,
            account_id=self.account.id,
            action_id=action_id,
            currency=currency,
            amount=amount,
        )

    def _places(self, rules: Sequence[Rule]) -> dict[str, object]:
        return {
            "organization_id": self.account.organization_id,
            "scopes": [rule.scope for rule in rules],
            "subjects": [rule.subject for rule in rules],
            "currencies": [_day_rule(rule).currency for rule in rules],
        }

    async def accept(self, submission: Submission, deadline: datetime | None) -> Acceptance:
        await act_as(self.connection, Role.ACCEPT)
        (accepted,) = await accept(self.connection, [submission])
        if deadline is not None and accepted.status is AcceptStatus.ACCEPTED:
            await act_as(self.connection, self.role)
            await _queries.set_deadline(
                self.connection,
                organization_id=self.account.organization_id,
                account_id=self.account.id,
                action_id=submission.action_id,
                deadline=deadline,
            )
        return accepted

    async def refuse(self, receipt_id: ReceiptId, receipt: Receipt) -> None:
        await keep_refusal(self.connection, self.account.organization_id, self.account.id, receipt_id, receipt)


@dataclass(frozen=True, slots=True)
class PostgresCountedAcceptStore(PostgresStore):
    """Implements CountedAcceptStore."""

    @asynccontextmanager
    async def counting(self, account: TradingAccount, question: Counting) -> AsyncIterator[PostgresCountedAccept]:
        async with transaction(self.pool, self.role, account.organization_id, locked=account.id) as connection:
            facts = await read_facts(connection, account.organization_id, account.id, question)
            if facts.others:
                symbols = [holding.symbol for holding in facts.others]
                await want_symbols(connection, account.organization_id, account.id, symbols)
            yield PostgresCountedAccept(connection, account, facts, self.role)


@dataclass(frozen=True, slots=True)
class ExecutorCountedAcceptStore(PostgresCountedAcceptStore):
    """For executors, whose login has another role."""

    role: ClassVar[Role] = Role.EXECUTION
