"""Calls about brokers, market calendars, reference prices and the paper broker's faults."""

from collections.abc import Mapping, Sequence

from openbell.async_client.calls import AsyncCalls
from openbell.controls.calendars import Calendar, MarketSessions
from openbell.controls.references import GivenPrice, GivenRate, ReferencePrice, References, references_request
from openbell.models import Broker, FaultPlan, PageOf
from openbell.requests import Request, change, path_of, without_none


class AsyncMarketCalls(AsyncCalls):
    """Read what brokers and markets offer, and set what commands are checked against."""

    async def brokers(self) -> tuple[Broker, ...]:
        """Read every broker that accounts can use, and what it supports."""
        found = await self._session.get(PageOf[Broker], "/v1/brokers")
        return found.data

    async def calendars(self) -> tuple[Calendar, ...]:
        """Read every market calendar that a rule can name."""
        found = await self._session.get(PageOf[Calendar], "/v1/calendars")
        return found.data

    async def market_sessions(
        self, calendar: str, *, since: str | None = None, until: str | None = None
    ) -> MarketSessions:
        """Read when a market is open, between two trade dates such as 2026-11-27 (default: the next week)."""
        days = without_none({"since": since, "until": until})
        return await self._session.get(MarketSessions, path_of("calendars", calendar, "sessions"), days)

    async def give_references(
        self, prices: Sequence[GivenPrice] = (), rates: Sequence[GivenRate] = (), *, organization_id: str | None = None
    ) -> References:
        """Set reference prices and exchange rates; older values do not replace newer ones.

        It takes an access token; that of a service account also takes `organization_id`.
        """
        return await self._session.fetch(references_request(prices, rates, organization_id), References)

    async def reference_prices(
        self, symbols: Sequence[str] = (), *, account_id: str | None = None
    ) -> tuple[ReferencePrice, ...]:
        """Read the prices that the account's commands are checked against; without symbols, all of them."""
        path = self._connection.path(account_id, "reference-prices")
        parameters = {"symbols": ",".join(symbols)} if symbols else {}
        found = await self._session.get(PageOf[ReferencePrice], path, parameters)
        return found.data

    async def set_fault_plan(
        self, faults: Mapping[str, float], *, seed: int = 0, account_id: str | None = None
    ) -> FaultPlan:
        """Make the account's paper broker fail: `faults` maps a fault to its probability or its seconds.

        The plan replaces the one before. With the same seed, the same orders get the same faults.
        """
        body = {"seed": seed, "faults": dict(faults)}
        path = self._connection.path(account_id, "paper", "faults")
        return await self._session.fetch(change("PUT", path, body), FaultPlan)

    async def fault_plan(self, *, account_id: str | None = None) -> FaultPlan:
        """Read the fault plan of the account's paper broker."""
        return await self._session.get(FaultPlan, self._connection.path(account_id, "paper", "faults"))

    async def remove_fault_plan(self, *, account_id: str | None = None) -> None:
        """Remove the fault plan of the account's paper broker."""
        await self._session.request(Request("DELETE", self._connection.path(account_id, "paper", "faults")))
