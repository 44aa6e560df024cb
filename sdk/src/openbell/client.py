"""The client for ordinary code."""

from collections.abc import Iterator, Mapping, Sequence
from time import sleep
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx

from openbell import backtests, order_lists, receipt_requests, references, requests, rule_requests, sse
from openbell.backtests import Backtest, BacktestOptions
from openbell.calendars import Calendar, CalendarList, MarketSessions
from openbell.connection import DEFAULT_TIMEOUT, connect
from openbell.event_records import Event, ExternalOrder
from openbell.halts import HaltReport
from openbell.httpx_exchange import client_arguments, loss_of, reply_of, request_arguments
from openbell.mirror import Mirror
from openbell.models import (
    Action,
    Broker,
    BrokerList,
    FaultPlan,
    Page,
    Statistics,
    SymbolControl,
    SymbolTime,
)
from openbell.order_lists import (
    EventPage,
    ExecutionOptions,
    ExecutionPage,
    ExternalOrderPage,
    HistoryOptions,
    Order,
    OrderOptions,
    OrderPage,
    Positions,
    RecordedExecution,
)
from openbell.orders import Side, Spec, TimeWindow
from openbell.organization_clients import Accounts, ApiKeys, Operations
from openbell.plans import Answer, Pause, Plan, Step, ask, await_final, fetch, pages, submit
from openbell.receipts import ChainedAction, ChainHeads, ChainPage, Evaluation, Receipt, ReceiptPage
from openbell.references import GivenPrice, GivenRate, ReferencePrice, ReferencePriceList, References
from openbell.requests import (
    PAGE_LIMIT,
    CreateOptions,
    ListOptions,
    ReplaceOptions,
    Request,
    SubmitOptions,
    TimeOptions,
)
from openbell.rule_requests import RemoveOptions, RuleOptions, RuleScope, State, SwitchOptions
from openbell.rules import Rule, RuleChange, RuleChangePage, RuleList, Switch
from openbell.subscriptions import EventOptions, Subscription, Transport, subscription_of
from openbell.webhook_clients import Webhooks

Outcome = TypeVar("Outcome")


class Client:
    """Submit, replace, cancel and follow intents; safe to share between threads."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        stream_address: str | None = None,
        account_id: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        access_token: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """What is left out comes from OPENBELL_API_KEY, OPENBELL_URL, OPENBELL_STREAM and OPENBELL_ACCOUNT.

        An access token of a user speaks instead of the key, for what is only for people.
        """
        self._connection = connect(api_key, base_url, stream_address, account_id, timeout, access_token)
        self._http = httpx.Client(**client_arguments(self._connection), transport=transport)
        self.accounts = Accounts(self._carry_out, self._connection)
        self.api_keys = ApiKeys(self._carry_out, self._connection)
        self.operations = Operations(self._carry_out)
        self.webhooks = Webhooks(self._carry_out)

    def __repr__(self) -> str:
        """Where it points, with the key masked."""
        return f"Client({self._connection})"

    def __enter__(self) -> Self:
        """Use as a context manager to close the connections at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def buy(self, symbol: str, spec: Spec, **options: Unpack[CreateOptions]) -> Action:
        """Ask to buy."""
        return self.create_intent(symbol=symbol, side="BUY", spec=spec, **options)

    def sell(self, symbol: str, spec: Spec, **options: Unpack[CreateOptions]) -> Action:
        """Ask to sell what is held; for a short sale use create_intent with side SELL_SHORT."""
        return self.create_intent(symbol=symbol, side="SELL", spec=spec, **options)

    def create_intent(self, *, symbol: str, side: Side, spec: Spec, **options: Unpack[CreateOptions]) -> Action:
        """Ask for a new order; returns once it is durably recorded, not once it is filled."""
        request = requests.create_intent(self._connection, symbol=symbol, side=side, spec=spec, options=options)
        return self._carry_out(submit(request))

    def evaluate(self, *, symbol: str, side: Side, spec: Spec, **options: Unpack[CreateOptions]) -> Evaluation:
        """What the controls would say of a new order now; nothing is recorded, sent or counted."""
        request = requests.create_intent(self._connection, symbol=symbol, side=side, spec=spec, options=options)
        return self._evaluate(request, options.get("account_id"))

    def evaluate_replace(self, intent_id: str, spec: Spec, **options: Unpack[ReplaceOptions]) -> Evaluation:
        """What the controls would say of a change now; nothing is recorded, sent or counted."""
        request = requests.replace_intent(self._connection, intent_id, spec, options)
        return self._evaluate(request, options.get("account_id"))

    def replace_intent(self, intent_id: str, spec: Spec, **options: Unpack[ReplaceOptions]) -> Action:
        """Ask that an intent's order become this: its own kind, and the total quantity with what has filled."""
        return self._carry_out(submit(requests.replace_intent(self._connection, intent_id, spec, options)))

    def cancel_intent(self, intent_id: str, **options: Unpack[SubmitOptions]) -> Action:
        """Ask that an intent's order be cancelled."""
        return self._carry_out(submit(requests.cancel_intent(self._connection, intent_id, options)))

    def intent(self, intent_id: str, *, account_id: str | None = None) -> Action:
        """The latest action of an intent, with its execution."""
        return self._carry_out(fetch(requests.latest_action(self._connection, intent_id, account_id), Action))

    def wait(self, intent_id: str, timeout: float = 30.0, *, account_id: str | None = None) -> Action:
        """The intent once its execution is final; raises NotFinal if it is not within timeout seconds."""
        request = requests.latest_action(self._connection, intent_id, account_id)
        return self._carry_out(await_final(request, timeout))

    def intents(self, **options: Unpack[ListOptions]) -> Iterator[Action]:
        """Every action record of the account, or those that pass the filters, oldest first, without executions."""
        return self._records(requests.intents_page(self._connection, options, None, PAGE_LIMIT))

    def intents_page(
        self, next_cursor: str | None = None, limit: int = PAGE_LIMIT, **options: Unpack[ListOptions]
    ) -> Page:
        """One page of action records; it may be short, even empty, where next_cursor says that there are more."""
        request = requests.intents_page(self._connection, options, next_cursor, limit)
        return self._carry_out(fetch(request, Page))

    def stats(self, time_window: TimeWindow = "last_day", *, account_id: str | None = None) -> Statistics:
        """What was asked in a window, and what came of it."""
        return self._carry_out(fetch(requests.statistics(self._connection, account_id, time_window), Statistics))

    def actions(self, intent_id: str, *, account_id: str | None = None) -> Iterator[Action]:
        """The history of an intent, oldest first."""
        return self._records(requests.actions_page(self._connection, intent_id, account_id))

    def orders(self, **options: Unpack[OrderOptions]) -> Iterator[Order]:
        """Orders of the account's intents as they stand, in the order they were asked for."""
        for page in pages(self._carry_out, order_lists.orders(self._connection, options), OrderPage):
            yield from page.data

    def order(self, intent_id: str, *, account_id: str | None = None) -> Order:
        """The order of an intent as it stands."""
        return self._carry_out(fetch(order_lists.order(self._connection, intent_id, account_id), Order))

    def external_orders(self, *, account_id: str | None = None) -> Iterator[ExternalOrder]:
        """Orders at the broker that nobody asked for here."""
        request = order_lists.external_orders(self._connection, account_id)
        for page in pages(self._carry_out, request, ExternalOrderPage):
            yield from page.data

    def executions(self, **options: Unpack[ExecutionOptions]) -> Iterator[RecordedExecution]:
        """Executions as they stand, busts and corrections included, in the order they were recorded."""
        for page in pages(self._carry_out, order_lists.executions(self._connection, options), ExecutionPage):
            yield from page.data

    def positions(self, *, account_id: str | None = None) -> Positions:
        """What the account holds, all of it at one moment."""
        return self._carry_out(fetch(order_lists.positions(self._connection, account_id), Positions))

    def event_history(self, **options: Unpack[HistoryOptions]) -> Iterator[Event]:
        """Past events up to now, the oldest first; raises EventMissed for those that are no longer kept."""
        following: Request | None = order_lists.event_history(self._connection, options)
        while following is not None:  # ends at the newest event
            page = self._carry_out(fetch(following, EventPage))
            page.require_whole()
            yield from page.events
            following = order_lists.following_events(following, page.next_token)

    def receipt(self, receipt_id: str, *, account_id: str | None = None) -> Receipt:
        """Why a command was accepted or refused."""
        return self._carry_out(fetch(receipt_requests.receipt(self._connection, receipt_id, account_id), Receipt))

    def receipts_of_intent(self, intent_id: str, *, account_id: str | None = None) -> Iterator[Receipt]:
        """The receipts of an intent's commands in their order, each followed by that of a refusal at its door."""
        request = receipt_requests.receipts_of_intent(self._connection, intent_id, account_id)
        for page in pages(self._carry_out, request, ReceiptPage):
            yield from page.data

    def refusals(self, *, account_id: str | None = None) -> Iterator[Receipt]:
        """What controls refused, the oldest first."""
        request = receipt_requests.refusals(self._connection, account_id)
        for page in pages(self._carry_out, request, ReceiptPage):
            yield from page.data

    def chain(self, *, account_id: str | None = None) -> ChainHeads:
        """Where the chains over the account's actions and refusals stand."""
        return self._carry_out(fetch(receipt_requests.chain(self._connection, account_id), ChainHeads))

    def chained_actions(self, *, account_id: str | None = None) -> Iterator[ChainedAction]:
        """Every action of the account with what its hash and its chain are made of, the oldest first."""
        request = receipt_requests.chained_actions(self._connection, account_id)
        for page in pages(self._carry_out, request, ChainPage):
            yield from page.data

    def brokers(self) -> tuple[Broker, ...]:
        """Every broker that accounts can be at, and what it can do."""
        return (self._carry_out(fetch(requests.brokers(), BrokerList))).data

    def calendars(self) -> tuple[Calendar, ...]:
        """Every market calendar that a rule can name."""
        return (self._carry_out(fetch(requests.calendars(), CalendarList))).data

    def market_sessions(self, calendar: str, *, since: str | None = None, until: str | None = None) -> MarketSessions:
        """When a market is open, from one trade date to another, such as 2026-11-27; by default the next week."""
        return self._carry_out(fetch(requests.market_sessions(calendar, since, until), MarketSessions))

    def set_symbol_control(
        self, symbol: str, *, disabled: bool, reason: str | None = None, account_id: str | None = None
    ) -> SymbolControl:
        """Switch a symbol off or on; a reason that is left out is removed."""
        request = requests.set_symbol_control(
            self._connection, symbol, disabled=disabled, reason=reason, account_id=account_id
        )
        return self._carry_out(fetch(request, SymbolControl))

    def halt_report(self, account_id: str | None = None) -> HaltReport:
        """What the halts of the account came to, with the broker's word on what still works."""
        return self._carry_out(fetch(requests.halt_report(self._connection, account_id), HaltReport))

    def set_fault_plan(self, faults: Mapping[str, float], *, seed: int = 0, account_id: str | None = None) -> FaultPlan:
        """Have the account's paper broker misbehave, in place of the plan before; with no faults it behaves."""
        request = requests.set_fault_plan(self._connection, faults, seed=seed, account_id=account_id)
        return self._carry_out(fetch(request, FaultPlan))

    def fault_plan(self, *, account_id: str | None = None) -> FaultPlan:
        """How the account's paper broker misbehaves."""
        return self._carry_out(fetch(requests.fault_plan(self._connection, account_id), FaultPlan))

    def remove_fault_plan(self, *, account_id: str | None = None) -> None:
        """Have the account's paper broker behave."""
        self._carry_out(ask(requests.remove_fault_plan(self._connection, account_id)))

    def patch_symbol_time(self, symbol: str, **options: Unpack[TimeOptions]) -> SymbolTime:
        """Change when a symbol may be traded; what is left out stays as it is, what clear names is removed."""
        return self._carry_out(fetch(requests.patch_symbol_time(self._connection, symbol, options), SymbolTime))

    def symbol_control(self, symbol: str, *, account_id: str | None = None) -> SymbolControl:
        """Whether a symbol is switched off; raises NotFound if that was never set."""
        request = requests.symbol_control(self._connection, symbol, account_id)
        return self._carry_out(fetch(request, SymbolControl))

    def give_references(
        self,
        prices: Sequence[GivenPrice] = (),
        rates: Sequence[GivenRate] = (),
        *,
        organization_id: str | None = None,
    ) -> References:
        """Give prices and rates to judge by; it takes an access token, of a service account with the organization."""
        return self._carry_out(fetch(references.give_references(prices, rates, organization_id), References))

    def reference_prices(
        self, symbols: Sequence[str] = (), *, account_id: str | None = None
    ) -> tuple[ReferencePrice, ...]:
        """The prices that commands of the account are judged by; without symbols, all of them."""
        request = references.reference_prices(self._connection, symbols, account_id)
        return (self._carry_out(fetch(request, ReferencePriceList))).data

    def symbol_time(self, symbol: str, *, account_id: str | None = None) -> SymbolTime:
        """When a symbol may be traded; raises NotFound if that was never set."""
        return self._carry_out(fetch(requests.symbol_time(self._connection, symbol, account_id), SymbolTime))

    def rules(self, **scope: Unpack[RuleScope]) -> tuple[Rule, ...]:
        """Every rule of a scope, by code, with the terms that are in force."""
        return self._carry_out(fetch(rule_requests.rules(self._connection, scope), RuleList)).data

    def rule(self, code: str, **scope: Unpack[RuleScope]) -> Rule:
        """One rule; raises NotFound if it is not set."""
        return self._carry_out(fetch(rule_requests.rule(self._connection, code, scope), Rule))

    def set_rule(
        self, code: str, parameters: Mapping[str, Any], *, reason: str, **options: Unpack[RuleOptions]
    ) -> Rule:
        """Set a rule; with expires_at only until then, and what was set before applies again by itself."""
        request = rule_requests.set_rule(self._connection, code, parameters, reason, options)
        return self._carry_out(fetch(request, Rule))

    def remove_rule(self, code: str, **options: Unpack[RemoveOptions]) -> None:
        """Remove a rule, with what it was for a time; its history stays."""
        self._carry_out(ask(rule_requests.remove_rule(self._connection, code, options)))

    def rule_history(self, code: str, **scope: Unpack[RuleScope]) -> Iterator[RuleChange]:
        """Every change of a rule, the newest first."""
        return self._changes(rule_requests.rule_history(self._connection, code, scope))

    def switch(self, **scope: Unpack[RuleScope]) -> Switch:
        """How the switch of a scope stands; a wider one may be stricter."""
        return self._carry_out(fetch(rule_requests.switch(self._connection, scope), Switch))

    def set_switch(self, state: State, *, reason: str, **options: Unpack[SwitchOptions]) -> Switch:
        """Halt a scope, let it only reduce, or let everything pass; to lift it takes a user's access token."""
        request = rule_requests.set_switch(self._connection, state, reason, options)
        return self._carry_out(fetch(request, Switch))

    def switch_history(self, **scope: Unpack[RuleScope]) -> Iterator[RuleChange]:
        """Every change of a switch, the newest first."""
        return self._changes(rule_requests.switch_history(self._connection, scope))

    def backtest(self, rules: Sequence[Mapping[str, Any]], **options: Unpack[BacktestOptions]) -> Backtest:
        """What rules would have refused of what was recorded; nothing is changed. It may take half a minute."""
        request = backtests.backtest(self._connection, rules, options)
        return self._carry_out(fetch(request, Backtest))

    def events(self, resume_token: str | None = None, **options: Unpack[EventOptions]) -> Iterator[Event]:
        """Events from now on, or as start or resume_token say; subscribes now, reconnects, and never skips one."""
        stream = self._follow(subscription_of(self._connection, resume_token, options))
        next(stream)
        return (event for event in stream if event is not None)

    def mirror(self, *, account_id: str | None = None, transport: Transport | None = None) -> Mirror:
        """The account's open orders and what it holds, kept current: `with client.mirror() as mirror: …`."""
        options: EventOptions = {"account_id": account_id, "start": "primed", "transport": transport}
        subscription = subscription_of(self._connection, None, options)
        stream = self._follow(subscription)
        return Mirror((event for event in stream if event is not None), subscription)

    def _follow(self, subscription: Subscription) -> Iterator[Event | None]:
        if subscription.transport == "sse":
            return sse.iterate(self._http, self._connection, subscription)
        from openbell.events import iterate  # grpc is slow to import and most callers never stream

        return iterate(self._connection, subscription)

    def _changes(self, request: Request) -> Iterator[RuleChange]:
        for page in pages(self._carry_out, request, RuleChangePage):
            yield from page.data

    def _evaluate(self, request: Request, account_id: str | None) -> Evaluation:
        dry = receipt_requests.evaluation(self._connection, request, account_id)
        return self._carry_out(fetch(dry, Evaluation))

    def _records(self, request: Request) -> Iterator[Action]:
        for page in pages(self._carry_out, request, Page):
            yield from page.data

    def _carry_out(self, plan: Plan[Outcome]) -> Outcome:
        answer: Answer = None
        while True:  # ends with the plan, which bounds its own retries
            try:
                step = plan.send(answer)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            answer = self._perform(step)

    def _perform(self, step: Step) -> Answer:
        if isinstance(step, Pause):
            sleep(step.seconds)
            return None
        try:
            return reply_of(self._http.request(**request_arguments(self._connection, step)))
        except httpx.RequestError as error:
            return loss_of(self._connection, error)
