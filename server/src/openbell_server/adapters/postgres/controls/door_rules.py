"""Reads the rules and facts for the check before sending, and stores its refusals, under the account's lock."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from openbell_server.adapters.postgres import market_rows
from openbell_server.adapters.postgres.connection import Connection
from openbell_server.adapters.postgres.controls.rule_books import RuleBooks
from openbell_server.adapters.postgres.intents import accept_with_counts
from openbell_server.application.controls.check_command import currencies_of, currency_pairs
from openbell_server.application.controls.ports.rules import Counting
from openbell_server.application.ports.account_transaction import BrokerAccount, TrackedAction
from openbell_server.domain.controls.facts import CommandFacts, Facts, Need
from openbell_server.domain.controls.receipts import Receipt
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.identifiers import ReceiptId, uuid7
from openbell_server.domain.markets.calendars import MarketCalendars


class JudgingTransaction:
    """The part of AccountTransaction that rules need."""

    __slots__ = ()
    connection: Connection
    account: BrokerAccount
    now: datetime
    books: RuleBooks
    calendars: MarketCalendars | None

    async def rule_book(self, epochs: tuple[int, int]) -> RuleBook:
        organization_id, account_id = self.account.organization_id, self.account.account_id
        cached = self.books.find(organization_id, account_id, epochs)
        return cached or await self.books.read(self.connection, organization_id, account_id)

    async def facts_at_door(
        self, action: TrackedAction, asked: CommandFacts, rules: Sequence[Rule], needs: frozenset[Need]
    ) -> Facts:
        assert action.at_door is not None
        facts = Facts(now=action.at_door.now, calendars=self.calendars)
        organization_id, broker, symbol = self.account.organization_id, self.account.broker, asked.symbol
        if needs & {Need.EXPOSURE, Need.LOSSES, Need.FUNDS}:
            question = Counting(
                asked=asked,
                needs=needs,
                action_id=action.action_id,
                intent_id=action.intent_id,
                broker=broker,
                currencies=currencies_of(rules),
            )
            found = await accept_with_counts.read_facts(
                self.connection, organization_id, self.account.account_id, question
            )
            facts = replace(
                facts,
                exposure=found.exposure,
                others=found.others,
                losses=found.losses,
                funds=found.funds,
                rates_of_exchange=found.rates_of_exchange,
            )
        if Need.PRICE in needs:
            prices = await market_rows.read_prices(self.connection, organization_id, broker, [symbol])
            facts = replace(facts, price=prices.get(symbol))
        if Need.INSTRUMENT not in needs:
            return facts
        instrument = (await market_rows.read_instruments(self.connection, organization_id, broker, [symbol])).get(
            symbol
        )
        pairs = [] if instrument is None else currency_pairs(rules, instrument.quote_currency)
        rates = await market_rows.read_rates(self.connection, organization_id, pairs) if pairs else {}
        return replace(facts, instrument=instrument, rates_of_exchange={**facts.rates_of_exchange, **rates})

    async def keep_refusal(self, action: TrackedAction, receipt: Receipt) -> None:
        receipt_id = ReceiptId(uuid7(int(self.now.timestamp() * 1000), os.urandom(10)))
        await accept_with_counts.keep_refusal(
            self.connection,
            self.account.organization_id,
            self.account.account_id,
            receipt_id,
            receipt,
            (action.intent_id, action.seq),
        )
