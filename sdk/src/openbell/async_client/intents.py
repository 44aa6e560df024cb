"""Calls about intents, orders, executions and positions."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Unpack

from openbell.async_client.calls import AsyncCalls
from openbell.events.records import Event, ExternalOrder
from openbell.intents import requests
from openbell.intents.order_lists import (
    AccountOverview,
    Balances,
    CancelResult,
    CostMethod,
    EventPage,
    ExecutionOptions,
    HistoryOptions,
    Order,
    OrderOptions,
    OrderPage,
    PositionChange,
    Positions,
    Profit,
    ProfitOptions,
    RecordedExecution,
    following_events,
    history_query,
)
from openbell.intents.orders import ListOrder, Number, RouteStrategy, Side, Spec, TimeWindow, spec_of
from openbell.intents.requests import (
    CreateOptions,
    ListOptions,
    ReplaceOptions,
    SubmitOptions,
    account_page,
    organization_page,
)
from openbell.models import Action, Page, PageOf, Statistics
from openbell.receipts.records import Evaluation
from openbell.requests import PAGE_LIMIT, Request, change, page, path_of


class AsyncIntentCalls(AsyncCalls):
    """Submit commands, and read what became of them."""

    async def buy(
        self,
        symbol: str,
        order: Spec | Number,
        *,
        idempotency_key: str | None = None,
        client_reference_id: str | None = None,
        deadline: datetime | None = None,
        route_strategy: RouteStrategy | None = None,
        allow_duplicate: bool = False,
        account_id: str | None = None,
    ) -> Action:
        """Buy: `buy("AAPL", 10)` at the market, `buy("AAPL", Limit(10, "187.50"))` at a limit.

        Parameters, errors and what is returned: see `create_intent`.
        """
        return await self.create_intent(
            symbol=symbol,
            side="BUY",
            spec=order,
            idempotency_key=idempotency_key,
            client_reference_id=client_reference_id,
            deadline=deadline,
            route_strategy=route_strategy,
            allow_duplicate=allow_duplicate,
            account_id=account_id,
        )

    async def sell(
        self,
        symbol: str,
        order: Spec | Number,
        *,
        idempotency_key: str | None = None,
        client_reference_id: str | None = None,
        deadline: datetime | None = None,
        route_strategy: RouteStrategy | None = None,
        allow_duplicate: bool = False,
        account_id: str | None = None,
    ) -> Action:
        """Sell shares that the account holds: `sell("AAPL", 10)` at the market; see `create_intent`.

        For a short sale, call `create_intent` with side SELL_SHORT.
        """
        return await self.create_intent(
            symbol=symbol,
            side="SELL",
            spec=order,
            idempotency_key=idempotency_key,
            client_reference_id=client_reference_id,
            deadline=deadline,
            route_strategy=route_strategy,
            allow_duplicate=allow_duplicate,
            account_id=account_id,
        )

    async def create_intent(
        self,
        *,
        symbol: str,
        side: Side,
        spec: Spec | Number,
        idempotency_key: str | None = None,
        client_reference_id: str | None = None,
        deadline: datetime | None = None,
        route_strategy: RouteStrategy | None = None,
        allow_duplicate: bool = False,
        account_id: str | None = None,
    ) -> Action:
        """Submit a CREATE intent. Returns the recorded action at once, not when the order is filled: see `wait`.

        `spec`: Market, Limit, Stop or StopLimit; a number is the quantity of a market order. `idempotency_key`: the
        same key never trades twice; by default a new one. `client_reference_id`: your own id. `deadline`: the command
        is not sent to the broker later. `allow_duplicate`: skip the duplicate-order check. `account_id`: by default
        the client's account.

        Raises Invalid if the platform or a control refuses the command, Unreachable if it was never sent, and
        OutcomeUnknown if it may have been recorded: then submit it again with the same idempotency_key.
        """
        options: CreateOptions = {
            "idempotency_key": idempotency_key,
            "client_reference_id": client_reference_id,
            "deadline": deadline,
            "route_strategy": route_strategy,
            "allow_duplicate": allow_duplicate,
            "account_id": account_id,
        }
        request = requests.create_intent(
            self._connection, symbol=symbol, side=side, spec=spec_of(spec), options=options
        )
        return await self._session.submit(request, Action)

    async def replace_intent(
        self,
        intent_id: str,
        spec: Spec,
        *,
        idempotency_key: str | None = None,
        client_reference_id: str | None = None,
        deadline: datetime | None = None,
        account_id: str | None = None,
    ) -> Action:
        """Submit a REPLACE of an intent's order; parameters and errors as in `create_intent`.

        `spec` is of the order's own kind, and its quantity is the new total, including what has filled.
        """
        options: ReplaceOptions = {
            "idempotency_key": idempotency_key,
            "client_reference_id": client_reference_id,
            "deadline": deadline,
            "account_id": account_id,
        }
        return await self._session.submit(requests.replace_intent(self._connection, intent_id, spec, options), Action)

    async def cancel_intent(
        self,
        intent_id: str,
        *,
        idempotency_key: str | None = None,
        client_reference_id: str | None = None,
        account_id: str | None = None,
    ) -> Action:
        """Submit a CANCEL of an intent's order; parameters and errors as in `create_intent`."""
        options: SubmitOptions = {
            "idempotency_key": idempotency_key,
            "client_reference_id": client_reference_id,
            "account_id": account_id,
        }
        return await self._session.submit(requests.cancel_intent(self._connection, intent_id, options), Action)

    async def evaluate(
        self, *, symbol: str, side: Side, spec: Spec | Number, **options: Unpack[CreateOptions]
    ) -> Evaluation:
        """Evaluate the controls for a CREATE now, as a dry run: nothing is recorded, sent or counted."""
        request = requests.create_intent(
            self._connection, symbol=symbol, side=side, spec=spec_of(spec), options=options
        )
        return await self._evaluate(request, options.get("account_id"))

    async def evaluate_replace(self, intent_id: str, spec: Spec, **options: Unpack[ReplaceOptions]) -> Evaluation:
        """Evaluate the controls for a REPLACE now, as a dry run: nothing is recorded, sent or counted."""
        request = requests.replace_intent(self._connection, intent_id, spec, options)
        return await self._evaluate(request, options.get("account_id"))

    async def intent(self, intent_id: str, *, account_id: str | None = None) -> Action:
        """Read the latest action of an intent, with its execution. Raises NotFound if there is no such intent."""
        return await self._session.get(Action, self._connection.path(account_id, "intents", intent_id))

    async def wait(self, intent_id: str, timeout: float = 30.0, *, account_id: str | None = None) -> Action:
        """Poll an intent until its execution is final, for `timeout` seconds; raises NotFinal if it is still open."""
        request = Request("GET", self._connection.path(account_id, "intents", intent_id))
        return await self._session.await_final(request, timeout)

    def intents(self, **options: Unpack[ListOptions]) -> AsyncIterator[Action]:
        """List the actions of the account, the oldest first, without executions; options are filters."""
        return self._session.items(account_page(self._connection, "intents", options), Page)

    async def intents_page(
        self, next_cursor: str | None = None, limit: int = PAGE_LIMIT, **options: Unpack[ListOptions]
    ) -> Page:
        """Read one page of actions. A page may be short or empty although next_cursor shows that there are more."""
        request = account_page(self._connection, "intents", options, next_cursor, limit)
        return await self._session.fetch(request, Page)

    async def stats(self, time_window: TimeWindow = "last_day", *, account_id: str | None = None) -> Statistics:
        """Count the account's intents of a time window by action, side, symbol and outcome."""
        path = self._connection.path(account_id, "intents", "stats")
        return await self._session.get(Statistics, path, {"time_window": time_window})

    def actions(self, intent_id: str, *, account_id: str | None = None) -> AsyncIterator[Action]:
        """List every action of an intent, the oldest first."""
        return self._session.items(page(self._connection.path(account_id, "intents", intent_id, "actions")), Page)

    def overview(self) -> AsyncIterator[AccountOverview]:
        """See what is going on in every account: open and unknown orders, executions of the last minute, halts."""
        return self._session.items(page(path_of("overview")), PageOf[AccountOverview])

    def orders(self, **options: Unpack[OrderOptions]) -> AsyncIterator[Order]:
        """List the current state of orders, in the order of their intents; options are filters.

        A client that has an account lists its orders; `all_accounts=True` lists those of the organization.
        """
        return self._session.items(organization_page(self._connection, "orders", options), OrderPage)

    async def cancel_orders(
        self, intent_ids: Sequence[str], *, account_id: str | None = None
    ) -> tuple[CancelResult, ...]:
        """Cancel up to 100 orders as a user, by the ids of their intents; with an API key, call `cancel` instead.

        Each result has the recorded action, or the code and the reason why none was recorded.
        """
        path = self._connection.path(account_id, "orders", "cancel")
        found = await self._session.fetch(change("POST", path, {"intent_ids": list(intent_ids)}), PageOf[CancelResult])
        return tuple(found.data)

    def external_orders(self, *, account_id: str | None = None) -> AsyncIterator[ExternalOrder]:
        """List orders at the broker that were not submitted through Openbell."""
        return self._session.items(page(self._connection.path(account_id, "external-orders")), PageOf[ExternalOrder])

    def executions(self, **options: Unpack[ExecutionOptions]) -> AsyncIterator[RecordedExecution]:
        """List the current state of executions, in the order they were recorded; a bust has quantity 0."""
        return self._session.items(
            organization_page(self._connection, "executions", options), PageOf[RecordedExecution]
        )

    async def positions(self, *, cost_method: CostMethod | None = None, account_id: str | None = None) -> Positions:
        """Read all positions of the account with their cost and value, as of one event."""
        path = self._connection.path(account_id, "positions")
        return await self._session.get(Positions, path, {"cost_method": cost_method} if cost_method else None)

    def profit(self, **options: Unpack[ProfitOptions]) -> AsyncIterator[Profit]:
        """List what the trades of each day and symbol brought, by default those of the last 30 days."""
        path = self._connection.path(options.pop("account_id", None), "profit")
        return self._session.items(page(path, **options), PageOf[Profit])

    async def balances(self, *, account_id: str | None = None) -> Balances:
        """Read the account's cash, equity, buying power and margin, as its broker reported them at `as_of`.

        While you read them they are at most 30 seconds old. If nobody did before, all amounts are None: read them
        again after a few seconds.
        """
        return await self._session.get(Balances, self._connection.path(account_id, "balances"))

    def position_changes(
        self, symbol: str | None = None, *, order: ListOrder | None = None, account_id: str | None = None
    ) -> AsyncIterator[PositionChange]:
        """List each change of the account's positions, the oldest first unless `order` is "desc"."""
        path = self._connection.path(account_id, "positions", "changes")
        return self._session.items(page(path, symbol=symbol, order=order), PageOf[PositionChange])

    async def event_history(self, **options: Unpack[HistoryOptions]) -> AsyncIterator[Event]:
        """List past events up to now, the oldest first; raises EventMissed if some are no longer in the log."""
        following: Request | None = page(
            path_of("events"),
            options.get("resume_token"),
            account_id=self._connection.account(options.get("account_id")),
            **history_query(options),
        )
        while following is not None:  # ends at the newest event
            found = await self._session.fetch(following, EventPage)
            found.require_whole()
            for event in found.data:
                yield event
            following = following_events(following, found.next_cursor)

    async def _evaluate(self, request: Request, account_id: str | None) -> Evaluation:
        return await self._session.fetch(requests.evaluation(self._connection, request, account_id), Evaluation)
