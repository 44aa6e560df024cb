"""The kinds of broker that the paper broker can be, each command sent twice on purpose."""

from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from openbell_server.application.ports.broker import BrokerOrder
from openbell_server.brokers.paper.profiles import PAPER, PAPER_B, PAPER_C, PAPER_W, PROFILES, Profile
from openbell_server.brokers.paper.session import NoBrokerOrderId, PaperSession
from openbell_server.domain.orders.broker_reports import (
    Accepted,
    NotSent,
    OrderName,
    OrderReport,
    Outcome,
    Refused,
    ReportStatus,
    Unknown,
)
from openbell_server.domain.orders.order_terms import OrderType
from support.brokers.paper_broker import (
    AAPL,
    ACCOUNT,
    PRICE,
    ask,
    kind,
    named,
    new_order,
    next_report,
    replacement,
    resting,
    running,
    settings_of,
)

EVERY_PROFILE = pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
LONG_AGO = datetime.fromtimestamp(0, UTC)


def name_of(order: BrokerOrder, outcome: Outcome) -> OrderName:
    assert isinstance(outcome, Accepted)
    return named(order.client_order_id, outcome.broker_order_id)


async def taken(session: PaperSession, order: BrokerOrder) -> OrderName:
    return name_of(order, await session.submit(order))


async def listed(session: PaperSession) -> list[OrderReport]:
    return await session.orders_since(ACCOUNT, LONG_AGO)


@EVERY_PROFILE
async def test_an_order_is_found_replaced_and_canceled_by_what_the_broker_knows_it_by(
    ledger_url: str, profile: Profile
) -> None:
    async with running(settings_of(ledger_url), profile) as session:
        order = resting()
        name = await taken(session, order)
        report = await session.find(ACCOUNT, name)
        assert report is not None
        assert report.client_order_id == (None if profile is PAPER_C else order.client_order_id)
        assert (report.broker_order_id, report.terms_version) == (*name.broker_order_ids, 1)
        change = replace(replacement(order, PRICE - 2), order=name)
        assert await session.replace(change) == Accepted(report.broker_order_id)
        changed = await session.find(ACCOUNT, name)
        assert changed is not None
        assert (changed.terms, changed.terms_version) == (change.terms, 2)
        assert await session.cancel(ACCOUNT, name, order.valid_until) == Accepted(report.broker_order_id)
        assert [each.status for each in await listed(session)] == [ReportStatus.CANCELED]


TWICE = {PAPER.name: (Unknown, 1, 1), PAPER_W.name: (Unknown, 1, 2), PAPER_B.name: (Accepted, 2, 3)}
TWICE[PAPER_C.name] = TWICE[PAPER_B.name]


@EVERY_PROFILE
async def test_an_id_that_comes_again_while_its_order_works_and_after_it_ended(
    ledger_url: str, profile: Profile
) -> None:
    second, while_open, afterwards = TWICE[profile.name]
    async with running(settings_of(ledger_url), profile) as session:
        order = resting()
        name = await taken(session, order)
        assert kind(await session.submit(order)) is second
        assert len(await listed(session)) == while_open
        await session.cancel(ACCOUNT, name, order.valid_until)
        assert kind(await session.submit(order)) is (Unknown if profile is PAPER else Accepted)
        assert len(await listed(session)) == afterwards


@EVERY_PROFILE
async def test_a_replace_that_comes_again(ledger_url: str, profile: Profile) -> None:
    async with running(settings_of(ledger_url), profile) as session:
        order = resting()
        name = await taken(session, order)
        change = replace(replacement(order, PRICE - 2), order=name)
        assert kind(await session.replace(change)) is Accepted
        repeats = profile in (PAPER_B, PAPER_C)
        assert kind(await session.replace(change)) is (Accepted if repeats else Unknown)
        report = await session.find(ACCOUNT, name)
        assert report is not None
        assert (report.terms, report.terms_version) == (change.terms, 3 if repeats else 2)


@EVERY_PROFILE
async def test_a_cancel_that_comes_again_is_taken_where_the_capabilities_say_so(
    ledger_url: str, profile: Profile
) -> None:
    async with running(settings_of(ledger_url), profile) as session:
        order = resting()
        name = await taken(session, order)
        outcomes = [kind(await session.cancel(ACCOUNT, name, order.valid_until)) for _ in range(2)]
        assert outcomes == [Accepted, Accepted if profile.capabilities.repeats_cancels else Refused]


@EVERY_PROFILE
async def test_an_order_that_ended_is_found_unless_only_open_ones_are(ledger_url: str, profile: Profile) -> None:
    async with running(settings_of(ledger_url), profile) as session:
        name = await taken(session, new_order())
        report = await session.find(ACCOUNT, name)
        assert (report and report.status) == (None if profile is PAPER_W else ReportStatus.FILLED)
        assert [each.status for each in await listed(session)] == [ReportStatus.FILLED]


@EVERY_PROFILE
async def test_what_arrives_too_late_is_taken_where_no_end_is_enforced(ledger_url: str, profile: Profile) -> None:
    async with running(settings_of(ledger_url), profile) as session:
        late = replace(resting(), valid_until=datetime.now(UTC) - timedelta(seconds=1))
        outcome = await session.submit(late)
        assert kind(outcome) is (Refused if profile.capabilities.enforces_valid_until else Accepted)
        assert len(await listed(session)) == (0 if profile.capabilities.enforces_valid_until else 1)


@pytest.mark.parametrize("profile", [PAPER_B, PAPER_C], ids=lambda profile: profile.name)
async def test_a_command_for_an_order_without_a_broker_id_leaves_this_machine_never(
    ledger_url: str, profile: Profile
) -> None:
    settings = settings_of(ledger_url)
    async with running(settings, profile) as session:
        order = resting()
        await session.submit(order)
        nameless = named(order.client_order_id)
        assert kind(await session.cancel(ACCOUNT, nameless, order.valid_until)) is NotSent
        assert kind(await session.replace(replacement(order, PRICE - 2))) is NotSent
        if profile is PAPER_C:
            with pytest.raises(NoBrokerOrderId):
                await session.find(ACCOUNT, nameless)
        else:
            assert await session.find(ACCOUNT, nameless) is not None
        path = f"/{profile.name}/accounts/{ACCOUNT}/orders/{order.client_order_id}"
        by_hand = await ask(settings, "DELETE", f"{path}?valid_until=2099-01-01T00:00:00Z")
        assert (by_hand.status_code, by_hand.json()["code"]) == (400, "malformed")


async def test_a_broker_without_ids_refuses_one_and_the_others_need_it(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings):
        body = {"symbol": "AAPL", "side": "BUY", "type": "MARKET", "quantity": "1", "time_in_force": "DAY"}
        body["valid_until"] = "2099-01-01T00:00:00Z"
        for profile in PROFILES:
            path = f"/{profile}/accounts/{ACCOUNT}/orders"
            without, with_id = await ask(settings, "POST", path, body), None
            with_id = await ask(settings, "POST", path, {**body, "client_order_id": "abc"})
            taken_with_id = profile != PAPER_C.name
            assert (without.status_code, with_id.status_code) == ((400, 201) if taken_with_id else (201, 400))


async def test_a_profile_shows_its_own_orders_only(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session, AsyncExitStack() as open_feeds:
        others = {name: PaperSession(settings.paper_url, profile) for name, profile in PROFILES.items()}
        for other in others.values():
            open_feeds.push_async_callback(other.close)
        feeds = {name: await open_feeds.enter_async_context(aclosing(o.reports())) for name, o in others.items()}
        for feed in feeds.values():
            assert await next_report(feed) is None
        orders = {name: replace(resting(), quantity=Decimal(i)) for i, name in enumerate(PROFILES, 1)}
        names = {name: await taken(others[name], order) for name, order in orders.items()}
        for name, feed in feeds.items():
            told = await next_report(feed)
            assert told is not None
            assert told[1].broker_order_id == names[name].broker_order_ids[0]
            assert told[1].client_order_id == (None if name == "paper-c" else orders[name].client_order_id)
            assert [each.broker_order_id for each in await listed(others[name])] == [told[1].broker_order_id]
        strange = names["paper-b"]
        assert await session.find(ACCOUNT, strange) is None
        assert kind(await session.cancel(ACCOUNT, strange, orders["paper-b"].valid_until)) is Refused


async def test_a_report_tells_what_the_order_was_and_that_its_stop_triggered(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session, aclosing(session.reports()) as feed:
        stop = new_order(OrderType.STOP_LIMIT, stop_price=PRICE + 2, limit_price=PRICE - 1)
        assert await next_report(feed) is None
        name = await taken(session, stop)
        assert await next_report(feed) is not None
        before = await session.find(ACCOUNT, name)
        assert before is not None
        assert before.description is not None
        assert (before.triggered, before.terms and before.terms.stop_price) == (False, PRICE + 2)
        described = before.description
        assert (described.symbol, described.order_side, described.order_type) == (
            AAPL,
            stop.order_side,
            stop.order_type,
        )
        assert abs(datetime.now(UTC) - described.accepted_at) < timedelta(minutes=1)
        await ask(settings, "PUT", "/prices/AAPL", {"price": str(PRICE + 2)})
        told = await next_report(feed)
        assert told is not None
        assert (told[1].triggered, told[1].status, told[1].filled_quantity) == (True, ReportStatus.WORKING, Decimal(0))
        assert (told[1].terms, told[1].description) == (before.terms, before.description)
