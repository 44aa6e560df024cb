"""The client for asyncio."""

from asyncio import sleep
from collections.abc import AsyncIterator, Mapping, Sequence
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
from openbell.mirror import AsyncMirror
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
from openbell.organization_clients import AsyncAccounts, AsyncApiKeys, AsyncOperations
from openbell.plans import Answer, Pause, Plan, Step, ask, async_pages, await_final, fetch, submit
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
from openbell.webhook_clients import AsyncWebhooks

Outcome = TypeVar("Outcome")


class AsyncClient:
    """Submit, replace, cancel and follow intents; safe to share between the tasks of one event loop."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        stream_address: str | None = None,
        account_id: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        access_token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """What is left out comes from OPENBELL_API_KEY, OPENBELL_URL, OPENBELL_STREAM and OPENBELL_ACCOUNT.

        An access token of a user speaks instead of the key, for what is only for people.
        """
        self._connection = connect(api_key, base_url, stream_address, account_id, timeout, access_token)
        self._http = httpx.AsyncClient(**client_arguments(self._connection), transport=transport)
        self.accounts = AsyncAccounts(self._carry_out, self._connection)
        self.api_keys = AsyncApiKeys(self._carry_out, self._connection)
        self.operations = AsyncOperations(self._carry_out)
        self.webhooks = AsyncWebhooks(self._carry_out)

    def __repr__(self) -> str:
        """Where it points, with the key masked."""
        return f"AsyncClient({self._connection})"

    async def __aenter__(self) -> Self:
        """Use as a context manager to close the connections at the end."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def buy(self, symbol: str, spec: Spec, **options: Unpack[CreateOptions]) -> Action:
        """Ask to buy."""
        return await self.create_intent(symbol=symbol, side="BUY", spec=spec, **options)

    async def sell(self, symbol: str, spec: Spec, **options: Unpack[CreateOptions]) -> Action:
        """Ask to sell what is held; for a short sale use create_intent with side SELL_SHORT."""
        return await self.create_intent(symbol=symbol, side="SELL", spec=spec, **options)

    async def create_intent(self, *, symbol: str, side: Side, spec: Spec, **options: Unpack[CreateOptions]) -> Action:
        """Ask for a new order; returns once it is durably recorded, not once it is filled."""
        request = requests.create_intent(self._connection, symbol=symbol, side=side, spec=spec, options=options)
        return await self._carry_out(submit(request))

    async def evaluate(self, *, symbol: str, side: Side, spec: Spec, **options: Unpack[CreateOptions]) -> Evaluation:
        """What the controls would say of a new order now; nothing is recorded, sent or counted."""
        request = requests.create_intent(self._connection, symbol=symbol, side=side, spec=spec, options=options)
        return await self._evaluate(request, options.get("account_id"))

    async def evaluate_replace(self, intent_id: str, spec: Spec, **options: Unpack[ReplaceOptions]) -> Evaluation:
        """What the controls would say of a change now; nothing is recorded, sent or counted."""
        request = requests.replace_intent(self._connection, intent_id, spec, options)
        return await self._evaluate(request, options.get("account_id"))

    async def replace_intent(self, intent_id: str, spec: Spec, **options: Unpack[ReplaceOptions]) -> Action:
        """Ask that an intent's order become this: its own kind, and the total quantity with what has filled."""
        return await self._carry_out(submit(requests.replace_intent(self._connection, intent_id, spec, options)))

    async def cancel_intent(self, intent_id: str, **options: Unpack[SubmitOptions]) -> Action:
        """Ask that an intent's order be cancelled."""
        return await self._carry_out(submit(requests.cancel_intent(self._connection, intent_id, options)))

    async def intent(self, intent_id: str, *, account_id: str | None = None) -> Action:
        """The latest action of an intent, with its execution."""
        return await self._carry_out(fetch(requests.latest_action(self._connection, intent_id, account_id), Action))

    async def wait(self, intent_id: str, timeout: float = 30.0, *, account_id: str | None = None) -> Action:
        """The intent once its execution is final; raises NotFinal if it is not within timeout seconds."""
        request = requests.latest_action(self._connection, intent_id, account_id)
        return await self._carry_out(await_final(request, timeout))

    def intents(self, **options: Unpack[ListOptions]) -> AsyncIterator[Action]:
        """Every action record of the account, or those that pass the filters, oldest first, without executions."""
        return self._records(requests.intents_page(self._connection, options, None, PAGE_LIMIT))

    async def intents_page(
        self, next_cursor: str | None = None, limit: int = PAGE_LIMIT, **options: Unpack[ListOptions]
    ) -> Page:
        """One page of action records; it may be short, even empty, where next_cursor says that there are more."""
        request = requests.intents_page(self._connection, options, next_cursor, limit)
        return await self._carry_out(fetch(request, Page))

    async def stats(self, time_window: TimeWindow = "last_day", *, account_id: str | None = None) -> Statistics:
        """What was asked in a window, and what came of it."""
        return await self._carry_out(fetch(requests.statistics(self._connection, account_id, time_window), Statistics))

    def actions(self, intent_id: str, *, account_id: str | None = None) -> AsyncIterator[Action]:
        """The history of an intent, oldest first."""
        return self._records(requests.actions_page(self._connection, intent_id, account_id))

    async def orders(self, **options: Unpack[OrderOptions]) -> AsyncIterator[Order]:
        """Orders of the account's intents as they stand, in the order they were asked for."""
        async for page in async_pages(self._carry_out, order_lists.orders(self._connection, options), OrderPage):
            for order in page.data:
                yield order

    async def order(self, intent_id: str, *, account_id: str | None = None) -> Order:
        """The order of an intent as it stands."""
        return await self._carry_out(fetch(order_lists.order(self._connection, intent_id, account_id), Order))

    async def external_orders(self, *, account_id: str | None = None) -> AsyncIterator[ExternalOrder]:
        """Orders at the broker that nobody asked for here."""
        request = order_lists.external_orders(self._connection, account_id)
        async for page in async_pages(self._carry_out, request, ExternalOrderPage):
            for order in page.data:
                yield order

    async def executions(self, **options: Unpack[ExecutionOptions]) -> AsyncIterator[RecordedExecution]:
        """Executions as they stand, busts and corrections included, in the order they were recorded."""
        async for page in async_pages(
            self._carry_out, order_lists.executions(self._connection, options), ExecutionPage
        ):
            for execution in page.data:
                yield execution

    async def positions(self, *, account_id: str | None = None) -> Positions:
        """What the account holds, all of it at one moment."""
        return await self._carry_out(fetch(order_lists.positions(self._connection, account_id), Positions))

    async def event_history(self, **options: Unpack[HistoryOptions]) -> AsyncIterator[Event]:
        """Past events up to now, the oldest first; raises EventMissed for those that are no longer kept."""
        following: Request | None = order_lists.event_history(self._connection, options)
        while following is not None:  # ends at the newest event
            page = await self._carry_out(fetch(following, EventPage))
            page.require_whole()
            for event in page.events:
                yield event
            following = order_lists.following_events(following, page.next_token)

    async def receipt(self, receipt_id: str, *, account_id: str | None = None) -> Receipt:
        """Why a command was accepted or refused."""
        return await self._carry_out(fetch(receipt_requests.receipt(self._connection, receipt_id, account_id), Receipt))

    async def receipts_of_intent(self, intent_id: str, *, account_id: str | None = None) -> AsyncIterator[Receipt]:
        """The receipts of an intent's commands in their order, each followed by that of a refusal at its door."""
        request = receipt_requests.receipts_of_intent(self._connection, intent_id, account_id)
        async for page in async_pages(self._carry_out, request, ReceiptPage):
            for receipt in page.data:
                yield receipt

    async def refusals(self, *, account_id: str | None = None) -> AsyncIterator[Receipt]:
        """What controls refused, the oldest first."""
        request = receipt_requests.refusals(self._connection, account_id)
        async for page in async_pages(self._carry_out, request, ReceiptPage):
            for receipt in page.data:
                yield receipt

    async def chain(self, *, account_id: str | None = None) -> ChainHeads:
        """Where the chains over the account's actions and refusals stand."""
        return await self._carry_out(fetch(receipt_requests.chain(self._connection, account_id), ChainHeads))

    async def chained_actions(self, *, account_id: str | None = None) -> AsyncIterator[ChainedAction]:
        """Every action of the account with what its hash and its chain are made of, the oldest first."""
        request = receipt_requests.chained_actions(self._connection, account_id)
        async for page in async_pages(self._carry_out, request, ChainPage):
            for action in page.data:
                yield action

    async def brokers(self) -> tuple[Broker, ...]:
        """Every broker that accounts can be at, and what it can do."""
        return (await self._carry_out(fetch(requests.brokers(), BrokerList))).data

    async def calendars(self) -> tuple[Calendar, ...]:
        """Every market calendar that a rule can name."""
        return (await self._carry_out(fetch(requests.calendars(), CalendarList))).data

    async def market_sessions(
        self, calendar: str, *, since: str | None = None, until: str | None = None
    ) -> MarketSessions:
        """When a market is open, from one trade date to another, such as 2026-11-27; by default the next week."""
        return await self._carry_out(fetch(requests.market_sessions(calendar, since, until), MarketSessions))

    async def set_symbol_control(
        self, symbol: str, *, disabled: bool, reason: str | None = None, account_id: str | None = None
    ) -> SymbolControl:
        """Switch a symbol off or on; a reason that is left out is removed."""
        request = requests.set_symbol_control(
            self._connection, symbol, disabled=disabled, reason=reason, account_id=account_id
        )
        return await self._carry_out(fetch(request, SymbolControl))

    async def halt_report(self, account_id: str | None = None) -> HaltReport:
        """What the halts of the account came to, with the broker's word on what still works."""
        return await self._carry_out(fetch(requests.halt_report(self._connection, account_id), HaltReport))

    async def set_fault_plan(
        self, faults: Mapping[str, float], *, seed: int = 0, account_id: str | None = None
    ) -> FaultPlan:
        """Have the account's paper broker misbehave, in place of the plan before; with no faults it behaves."""
        request = requests.set_fault_plan(self._connection, faults, seed=seed, account_id=account_id)
        return await self._carry_out(fetch(request, FaultPlan))

    async def fault_plan(self, *, account_id: str | None = None) -> FaultPlan:
        """How the account's paper broker misbehaves."""
        return await self._carry_out(fetch(requests.fault_plan(self._connection, account_id), FaultPlan))

    async def remove_fault_plan(self, *, account_id: str | None = None) -> None:
        """Have the account's paper broker behave."""
        await self._carry_out(ask(requests.remove_fault_plan(self._connection, account_id)))

    async def patch_symbol_time(self, symbol: str, **options: Unpack[TimeOptions]) -> SymbolTime:
        """Change when a symbol may be traded; what is left out stays as it is, what clear names is removed."""
        return await self._carry_out(fetch(requests.patch_symbol_time(self._connection, symbol, options), SymbolTime))

    async def symbol_control(self, symbol: str, *, account_id: str | None = None) -> SymbolControl:
        """Whether a symbol is switched off; raises NotFound if that was never set."""
        request = requests.symbol_control(self._connection, symbol, account_id)
        return await self._carry_out(fetch(request, SymbolControl))

    async def give_references(
        self,
        prices: Sequence[GivenPrice] = (),
        rates: Sequence[GivenRate] = (),
        *,
        organization_id: str | None = None,
    ) -> References:
        """Give prices and rates to judge by; it takes an access token, of a service account with the organization."""
        return await self._carry_out(fetch(references.give_references(prices, rates, organization_id), References))

    async def reference_prices(
        self, symbols: Sequence[str] = (), *, account_id: str | None = None
    ) -> tuple[ReferencePrice, ...]:
        """The prices that commands of the account are judged by; without symbols, all of them."""
        request = references.reference_prices(self._connection, symbols, account_id)
        return (await self._carry_out(fetch(request, ReferencePriceList))).data

    async def symbol_time(self, symbol: str, *, account_id: str | None = None) -> SymbolTime:
        """When a symbol may be traded; raises NotFound if that was never set."""
        return await self._carry_out(fetch(requests.symbol_time(self._connection, symbol, account_id), SymbolTime))

    async def rules(self, **scope: Unpack[RuleScope]) -> tuple[Rule, ...]:
        """Every rule of a scope, by code, with the terms that are in force."""
        return (await self._carry_out(fetch(rule_requests.rules(self._connection, scope), RuleList))).data

    async def rule(self, code: str, **scope: Unpack[RuleScope]) -> Rule:
        """One rule; raises NotFound if it is not set."""
        return await self._carry_out(fetch(rule_requests.rule(self._connection, code, scope), Rule))

    async def set_rule(
        self, code: str, parameters: Mapping[str, Any], *, reason: str, **options: Unpack[RuleOptions]
    ) -> Rule:
        """Set a rule; with expires_at only until then, and what was set before applies again by itself."""
        request = rule_requests.set_rule(self._connection, code, parameters, reason, options)
        return await self._carry_out(fetch(request, Rule))

    async def remove_rule(self, code: str, **options: Unpack[RemoveOptions]) -> None:
        """Remove a rule, with what it was for a time; its history stays."""
        await self._carry_out(ask(rule_requests.remove_rule(self._connection, code, options)))

    def rule_history(self, code: str, **scope: Unpack[RuleScope]) -> AsyncIterator[RuleChange]:
        """Every change of a rule, the newest first."""
        return self._changes(rule_requests.rule_history(self._connection, code, scope))

    async def switch(self, **scope: Unpack[RuleScope]) -> Switch:
        """How the switch of a scope stands; a wider one may be stricter."""
        return await self._carry_out(fetch(rule_requests.switch(self._connection, scope), Switch))

    async def set_switch(self, state: State, *, reason: str, **options: Unpack[SwitchOptions]) -> Switch:
        """Halt a scope, let it only reduce, or let everything pass; to lift it takes a user's access token."""
        request = rule_requests.set_switch(self._connection, state, reason, options)
        return await self._carry_out(fetch(request, Switch))

    def switch_history(self, **scope: Unpack[RuleScope]) -> AsyncIterator[RuleChange]:
        """Every change of a switch, the newest first."""
        return self._changes(rule_requests.switch_history(self._connection, scope))

    async def backtest(self, rules: Sequence[Mapping[str, Any]], **options: Unpack[BacktestOptions]) -> Backtest:
        """What rules would have refused of what was recorded; nothing is changed. It may take half a minute."""
        request = backtests.backtest(self._connection, rules, options)
        return await self._carry_out(fetch(request, Backtest))

    def events(self, resume_token: str | None = None, **options: Unpack[EventOptions]) -> AsyncIterator[Event]:
        """Events from the first iteration on, or as start or resume_token say; reconnects, and never skips one."""
        return self._follow(subscription_of(self._connection, resume_token, options))

    def mirror(self, *, account_id: str | None = None, transport: Transport | None = None) -> AsyncMirror:
        """The account's open orders and what it holds, kept current: `async with client.mirror() as mirror: …`."""
        options: EventOptions = {"account_id": account_id, "start": "primed", "transport": transport}
        subscription = subscription_of(self._connection, None, options)
        return AsyncMirror(self._follow(subscription), subscription)

    def _follow(self, subscription: Subscription) -> AsyncIterator[Event]:
        if subscription.transport == "sse":
            return sse.iterate_async(self._http, self._connection, subscription)
        from openbell.events import iterate_async  # grpc is slow to import and most callers never stream

        return iterate_async(self._connection, subscription)

    async def _changes(self, request: Request) -> AsyncIterator[RuleChange]:
        async for page in async_pages(self._carry_out, request, RuleChangePage):
            for change in page.data:
                yield change

    async def _evaluate(self, request: Request, account_id: str | None) -> Evaluation:
        dry = receipt_requests.evaluation(self._connection, request, account_id)
        return await self._carry_out(fetch(dry, Evaluation))

    async def _records(self, request: Request) -> AsyncIterator[Action]:
        async for page in async_pages(self._carry_out, request, Page):
            for action in page.data:
                yield action

    async def _carry_out(self, plan: Plan[Outcome]) -> Outcome:
        answer: Answer = None
        while True:  # ends with the plan, which bounds its own retries
            try:
                step = plan.send(answer)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            answer = await self._perform(step)

    async def _perform(self, step: Step) -> Answer:
        if isinstance(step, Pause):
            await sleep(step.seconds)
            return None
        try:
            return reply_of(await self._http.request(**request_arguments(self._connection, step)))
        except httpx.RequestError as error:
            return loss_of(self._connection, error)
