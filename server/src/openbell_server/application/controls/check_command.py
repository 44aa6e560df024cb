"""Evaluate a command at acceptance: collect the rules that apply and the facts they need, and make the receipt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from openbell_server.application.controls.ports.orders import OrderStore
from openbell_server.application.controls.ports.rules import (
    CountedAccept,
    CountedAcceptStore,
    Counting,
    MarketStore,
    RuleBookStore,
)
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.access.authorization import require_own_order
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.evaluate import (
    applicable_rules,
    apply_shadow_mode,
    evaluate_rules,
    exemption,
    in_order,
    needs_of,
    with_position,
)
from openbell_server.domain.controls.facts import STATEFUL, CommandFacts, Facts, Gate, Need, Rate
from openbell_server.domain.controls.findings import Finding
from openbell_server.domain.controls.kinds.day_values import added_value
from openbell_server.domain.controls.kinds.funds import FreeFunds, reserved_amount
from openbell_server.domain.controls.kinds.numbers import NOTHING
from openbell_server.domain.controls.kinds.prices import OrderValue
from openbell_server.domain.controls.kinds.repeats import Window
from openbell_server.domain.controls.receipts import (
    Epochs,
    Evaluation,
    Receipt,
    cancel_facts,
    command_facts,
    receipt_of,
)
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.identifiers import ActionId, IntentId
from openbell_server.domain.markets.calendars import MarketCalendars
from openbell_server.domain.orders.intents import (
    ActionType,
    CancelIntent,
    Command,
    CommandRequest,
    CreateIntent,
    ReplaceIntent,
)
from openbell_server.domain.orders.order_terms import Terms

# Exchange rates read for one command, at most.
CURRENCIES_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A command, its rules, and the facts that can be read without the account's lock."""

    epochs: Epochs
    # As the receipt shows it.
    command: Mapping[str, Any]
    facts: Facts
    # None for a CANCEL and for a REPLACE of an unknown order: no rule applies to those.
    asked: CommandFacts | None = None
    book: RuleBook | None = None
    # The intent whose order a REPLACE changes.
    intent_id: IntentId | None = None
    # Rules that may apply, each with the facts it needs, and the facts that all of them need.
    rules: tuple[tuple[Rule, frozenset[Need]], ...] = ()
    needs: frozenset[Need] = frozenset()

    @property
    def is_counted(self) -> bool:
        """Whether it must be evaluated under the account's lock, for counted facts or for its deadline."""
        return bool(self.needs & STATEFUL) or (self.asked is not None and self.asked.deadline is not None)

    def receipt(self, facts: Facts | None = None, before: Sequence[Finding] = ()) -> Receipt:
        """The receipt by these facts, or by the facts of this case; findings of earlier checks come first."""
        known = facts or self.facts
        if self.asked is None or self.book is None:
            exempt = "CANCEL" if self.command["action_type"] == ActionType.CANCEL else None
            evaluation = Evaluation(command=self.command, evaluated_at=known.now, findings=before, exempt=exempt)
            return receipt_of(self.epochs, evaluation)
        evaluation = Evaluation(
            command=self.command,
            evaluated_at=known.now,
            findings=[*before, *self._findings(self.book, self.asked, known)],
            exempt=exemption(self.asked),
            watched_only=self.book.is_watched_only,
        )
        return receipt_of(self.epochs, evaluation)

    def _findings(self, book: RuleBook, asked: CommandFacts, known: Facts) -> list[Finding]:
        in_force = in_order(rule for rule, _ in self.rules if rule.is_in_force(known.now))
        return apply_shadow_mode(book, evaluate_rules(in_force, book, asked, known))

    async def counted_facts(self, counted: CountedAccept, *, count: bool) -> Facts:
        """The facts under the account's lock; with `count`, rate rules count the command from now on."""
        known = counted.facts
        facts = replace(
            self.facts,
            now=known.now,
            exposure=known.exposure,
            equal_orders=known.equal_orders,
            others=known.others,
            losses=known.losses,
            funds=known.funds,
            rates_of_exchange={**self.facts.rates_of_exchange, **known.rates_of_exchange},
        )
        if Need.RATE in self.needs:
            rates = [rule for rule, needed in self.rules if Need.RATE in needed and rule.is_in_force(known.now)]
            facts = replace(facts, judged=await counted.judged(rates, count=count))
        if days := self._day_rules(known.now):
            facts = replace(facts, day_values=await counted.day_values(days, lock=count))
        return facts

    async def count_value(self, counted: CountedAccept, facts: Facts, action_id: ActionId) -> None:
        """Count the value of the command, which was accepted as this action, and reserve what it may cost."""
        assert self.asked is not None
        if days := self._day_rules(facts.now):
            await counted.add_day_values(days, [added_value(rule, self.asked, facts) for rule in days])
        if Need.FUNDS in self.needs and facts.funds is not None:
            # Rules in another currency limit nothing, because their input is missing.
            currency = facts.funds.currency
            amounts = [
                reserved_amount(rule, self.asked, facts)
                for rule, _ in self.rules
                if isinstance(rule.parameters, FreeFunds) and rule.parameters.currency == currency
            ]
            # What only closes a position costs nothing.
            if cost := max(amounts, default=NOTHING):
                await counted.reserve(action_id, currency, cost)

    def _day_rules(self, now: datetime) -> list[Rule]:
        return [rule for rule, needed in self.rules if Need.DAY_VALUE in needed and rule.is_in_force(now)]

    def question(self, account: TradingAccount, idempotency_key: str | None = None) -> Counting:
        assert self.asked is not None
        # Also of rules that permit an override: it has no effect if another rule does not permit it.
        windows = [rule.parameters.window_millis for rule, _ in self.rules if isinstance(rule.parameters, Window)]
        return Counting(
            asked=self.asked,
            needs=self.needs,
            intent_id=self.intent_id,
            idempotency_key=idempotency_key,
            window_millis=max(windows, default=0),
            broker=account.broker,
            currencies=currencies_of([rule for rule, _ in self.rules]),
        )


@dataclass(frozen=True, slots=True)
class CheckCommand:
    books: RuleBookStore
    intents: OrderStore
    market: MarketStore
    counted: CountedAcceptStore
    # None where no market hours are known.
    calendars: MarketCalendars | None

    async def __call__(
        self, account: TradingAccount, caller: Principal, request: CommandRequest, before: Sequence[Finding] = ()
    ) -> Receipt | None:
        """The receipt that the command would get, without writing anything; None if the rules changed meanwhile."""
        case = await self.case(account, caller, request)
        if case is None or not case.is_counted:
            return None if case is None else case.receipt(before=before)
        async with self.counted.counting(account, case.question(account)) as counted:
            if counted.facts.epochs != (account.organization_epoch, account.account_epoch):
                return None
            return case.receipt(await case.counted_facts(counted, count=False), before)

    async def case(self, account: TradingAccount, caller: Principal, request: CommandRequest) -> Case | None:
        """None if the rules belong to other epochs than the account."""
        facts = Facts(now=account.now)
        if isinstance(request.command, CancelIntent):
            return Case(epochs=account, command=cancel_facts(), facts=facts)
        book = await self.books.rule_book(account)
        if (book.organization_epoch, book.account_epoch) != (account.organization_epoch, account.account_epoch):
            return None
        asked = await self._asked(account, caller, request)
        if asked is None:
            # There is no such intent; the accept step reports that.
            return Case(epochs=account, command={"action_type": ActionType.REPLACE}, facts=facts)
        rules_of_gate = applicable_rules(book, asked, Gate.ACCEPT)
        rules = [(rule, needs_of(rule, asked)) for rule in rules_of_gate]
        needed = frozenset().union(*(each for _, each in rules))
        return Case(
            epochs=account,
            command=command_facts(asked) | _order_facts(request.command),
            facts=await self._facts(account, asked, rules_of_gate, needed),
            asked=asked,
            book=book,
            intent_id=None if isinstance(request.command, CreateIntent) else request.command.ref_intent_id,
            rules=tuple(rules),
            needs=needed,
        )

    async def _asked(self, account: TradingAccount, caller: Principal, request: CommandRequest) -> CommandFacts | None:
        command = request.command
        assert not isinstance(command, CancelIntent)
        api_key_id = caller.id if caller.kind is PrincipalKind.API_KEY else None
        if isinstance(command, CreateIntent):
            return CommandFacts(
                action_type=ActionType.CREATE,
                symbol=command.symbol,
                order_side=command.order_side,
                order_type=command.spec.order_type,
                terms=command.spec.terms,
                environment=account.environment,
                api_key_id=api_key_id,
                deadline=request.deadline,
                allow_duplicate=request.allow_duplicate,
            )
        order = await self.intents.find_order(account.organization_id, account.id, command.ref_intent_id)
        if order is None:
            return None
        require_own_order(caller, order.creator)
        spec = command.spec
        asked = CommandFacts(
            action_type=ActionType.REPLACE,
            symbol=order.symbol,
            order_side=order.order_side,
            order_type=order.order_type,
            terms=Terms(
                quantity=spec.quantity,
                limit_price=spec.limit_price,
                stop_price=spec.stop_price,
                time_in_force=spec.time_in_force or order.terms.time_in_force,
            ),
            environment=account.environment,
            api_key_id=api_key_id,
            before=order.terms,
            filled_quantity=order.filled_quantity,
            deadline=request.deadline,
            allow_duplicate=request.allow_duplicate,
        )
        return with_position(asked, order.position)

    async def _facts(
        self, account: TradingAccount, asked: CommandFacts, rules: list[Rule], needed: frozenset[Need]
    ) -> Facts:
        facts = Facts(now=account.now, calendars=self.calendars)
        if Need.INSTRUMENT in needed:
            facts = replace(facts, instrument=await self.market.find_instrument(account, asked.symbol))
        if Need.PRICE in needed:
            facts = replace(facts, price=await self.market.find_price(account, asked.symbol))
        if facts.instrument is None:
            return facts
        rates: dict[tuple[str, str], Rate] = {}
        for pair in currency_pairs(rules, facts.instrument.quote_currency):
            rate = await self.market.find_rate(account.organization_id, *pair)
            if rate is not None:
                rates[pair] = rate
        return replace(facts, rates_of_exchange=rates)


def _order_facts(command: Command) -> dict[str, str]:
    # A refused REPLACE is stored as its receipt only, so the receipt must name the order.
    return {"intent_id": str(command.ref_intent_id)} if isinstance(command, ReplaceIntent) else {}


def currency_pairs(rules: Sequence[Rule], quoted: str) -> list[tuple[str, str]]:
    """The (from, to) currencies that the rules convert, at most CURRENCIES_MAX."""
    return [(quoted, other) for other in currencies_of(rules) if other != quoted][:CURRENCIES_MAX]


def currencies_of(rules: Sequence[Rule]) -> list[str]:
    """The currencies of rules on values."""
    return sorted({rule.parameters.currency for rule in rules if isinstance(rule.parameters, OrderValue | FreeFunds)})
