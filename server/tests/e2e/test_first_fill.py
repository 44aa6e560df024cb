"""The whole path: REST, relay, executor, paper broker, events, and back, also without NATS."""

import itertools
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import pytest

from openbell import Balances, Client, Invalid, Limit, Market, Stop, StopLimit
from openbell.intents.orders import Spec
from openbell_exchange.matching import reference_price
from openbell_exchange.money import fee
from openbell_exchange.terms import EXACT
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.domain.identifiers import Symbol

PRICE = reference_price(Symbol("AAPL"))


def state(client: Client, intent_id: str) -> str:
    execution = client.intent(intent_id).execution
    assert execution is not None
    return execution.status


def becomes(client: Client, intent_id: str, wanted: str) -> bool:
    return wait_until(lambda: state(client, intent_id) == wanted, 180)


@pytest.mark.parametrize(
    "spec",
    [
        Market(10),
        Limit(10, price=PRICE + 1),
        Stop(10, stop_price=PRICE - 1),
        StopLimit(10, stop_price=PRICE - 1, price=PRICE + 1),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_every_order_kind_is_filled(client: Client, spec: Spec) -> None:
    filled = client.wait(client.buy("AAPL", spec).intent_id)
    assert filled.execution is not None
    assert (filled.execution.status, filled.execution.filled_quantity) == ("FILLED", Decimal(10))
    assert filled.execution.average_price == PRICE
    # The broker may report a fill before it answers the command.
    assert wait_until(lambda: client.intent(filled.intent_id).status == "ACKED", 180)


def test_a_resting_order_is_cancelled(client: Client) -> None:
    intent = client.buy("AAPL", Limit(10, price="0.01"))
    assert becomes(client, intent.intent_id, "NEW")
    client.cancel_intent(intent.intent_id)
    assert becomes(client, intent.intent_id, "CANCELED")
    # The broker may report the end of an order before it answers the command.
    both = [(1, "CREATE", "ACKED"), (2, "CANCEL", "ACKED")]
    assert wait_until(lambda: [(a.seq, a.action_type, a.status) for a in client.actions(intent.intent_id)] == both, 180)


def test_a_symbol_that_is_switched_off_trades_no_more_and_its_orders_can_be_cancelled(client: Client) -> None:
    resting = client.buy("BRK/B", Limit(10, price="0.01"))
    assert becomes(client, resting.intent_id, "NEW")
    client.set_symbol_control("brk/b", disabled=True, reason="news")
    with pytest.raises(Invalid) as refused:
        client.buy("BRK/B", Market(1))
    assert refused.value.receipt is not None
    assert [rule["code"] for rule in refused.value.receipt["rules"]] == ["SYMBOL_DISABLED"]
    client.cancel_intent(resting.intent_id)
    assert becomes(client, resting.intent_id, "CANCELED")
    client.set_symbol_control("BRK/B", disabled=False)
    filled = client.wait(client.buy("BRK/B", Market(1)).intent_id)
    assert filled.execution is not None
    assert filled.execution.status == "FILLED"


def test_a_price_that_moves_fills_what_rests(client: Client, platform: LocalPlatform) -> None:
    intent = client.buy("MSFT", Limit(10, price="0.02"))
    assert becomes(client, intent.intent_id, "NEW")
    price_set = httpx.put(
        f"{platform.paper_url}/prices/MSFT", json={"price": "0.02"}, headers=platform.paper_operator, timeout=60
    )
    price_set.raise_for_status()
    assert becomes(client, intent.intent_id, "FILLED")


def test_the_stream_tells_the_story_and_resumes_exactly(client: Client) -> None:
    types = ["INTENT_ACTION", "BROKER_ORDER"]
    events = client.events(types=types)
    intent = client.buy("AAPL", Market(1)).intent_id
    story = list(itertools.islice(events, 4))
    words = [
        e.intent_action.status if e.intent_action else e.broker_order.status if e.broker_order else "" for e in story
    ]
    assert words[0] == "QUEUED"
    assert {"ACKED", "FILLED"} <= set(words[1:]) <= {"ACKED", "NEW", "FILLED"}
    assert {about.intent_id for e in story if (about := e.intent_action or e.broker_order)} == {intent}
    resumed = list(itertools.islice(client.events(story[0].resume_token, types=types), 3))
    assert [event.account_seq for event in resumed] == [event.account_seq for event in story[1:]]


def test_the_balances_follow_a_fill_and_the_log_has_the_change_of_cash(client: Client) -> None:
    started, seen = datetime.now(UTC), list[Balances]()

    def is_read_again() -> bool:
        # Earlier tests traded: balances that were read before this one may lack their fills.
        seen.append(client.balances())
        return seen[-1].as_of is not None and seen[-1].as_of > started

    assert wait_until(is_read_again, 180)
    before = seen[-1].cash
    assert before is not None
    intent = client.buy("AAPL", Market(100))
    assert becomes(client, intent.intent_id, "FILLED")
    after = EXACT.subtract(before, EXACT.add(100 * PRICE, fee(Decimal(100), PRICE)))
    assert wait_until(lambda: client.balances().cash == after, 180)
    balances = client.balances()
    assert (balances.broker, balances.currency, balances.initial_margin) == ("paper", "USD", None)
    assert balances.equity is not None
    assert balances.equity > after
    told = [event.balances_changed for event in client.event_history(types=["BALANCES_CHANGED"])]
    assert [each.cash for each in told if each is not None][-1] == after


def test_with_nats_stopped_orders_still_flow(client: Client, platform: LocalPlatform) -> None:
    platform.services.nats.stop()
    try:
        filled = client.wait(client.buy("AAPL", Market(3)).intent_id, timeout=60)
        assert filled.execution is not None
        assert filled.execution.status == "FILLED"
    finally:
        platform.services.nats.start()


@pytest.mark.parametrize("name", ["executor", "paper"])
def test_a_kill_around_the_broker_leaves_no_order_in_the_dark(
    client: Client, platform: LocalPlatform, name: str
) -> None:
    before = client.buy("AAPL", Market(4)).intent_id
    platform.stack.kill(name)
    platform.stack.start(name)
    platform.stack.wait_ready(name)
    assert becomes(client, client.buy("AAPL", Market(5)).intent_id, "FILLED")
    # Taken before the kill, or proven never to have arrived: both are true ends.
    assert wait_until(lambda: state(client, before) in {"FILLED", "FAILED"}, 180)


@pytest.mark.parametrize("name", ["api", "relay", "stream"])
def test_a_killed_process_loses_nothing(client: Client, platform: LocalPlatform, name: str) -> None:
    before = client.buy("AAPL", Market(4)).intent_id
    platform.stack.kill(name)
    platform.stack.start(name)
    platform.stack.wait_ready(name)
    after = client.buy("AAPL", Market(5)).intent_id
    for intent_id in (before, after):
        assert becomes(client, intent_id, "FILLED")


def test_every_process_drains_and_ends_cleanly(platform: LocalPlatform) -> None:
    for name in ("api", "relay", "executor", "stream", "paper"):
        assert platform.stack.is_running(name)
        assert platform.stack.stop(name) == 0
        platform.stack.start(name)
        platform.stack.wait_ready(name)
