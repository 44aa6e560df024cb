"""Comparing an account with its broker: what was missed is learned, what is not ours is kept, too many stop it."""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from openbell_server.adapters.postgres.operators.operators import PostgresOperatorStore
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.broker_guarantees import LookUp
from openbell_server.domain.orders.broker_reports import ExecutionChange, OrderReport, ReportStatus, Unknown
from openbell_server.domain.orders.external_orders import ORDERS_EXCEED_DOORS
from openbell_server.domain.orders.order_terms import OrderSide, Terms, TimeInForce
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_report, an_execution, described, new_id

WORKING, FILLED, CANCELED = ReportStatus.WORKING, ReportStatus.FILLED, ReportStatus.CANCELED
DAYS = timedelta(days=1)
# It knows no ids of its clients.
CLASS_C: dict[str, Any] = {"look_up": LookUp.BROKER_ID, "settle_seconds": 0.0}


def theirs(report: OrderReport, name: str | None = "by-phone-17", order_id: str = "x1", **told: object) -> OrderReport:
    return described(replace(report, client_order_id=name), order_id, **told)  # type: ignore[arg-type]


async def halt_of(harness: Harness) -> tuple[str | None, str | None]:
    row = await harness.pool.fetchrow("select halt_code, halt_detail from account_counters")
    assert row is not None
    return row["halt_code"], row["halt_detail"]


async def external(harness: Harness) -> list[tuple[str, str, int]]:
    rows = await harness.pool.fetch(
        "select broker_order_id, status, filled_quantity from external_orders order by number"
    )
    return [(row[0], row[1], int(row[2])) for row in rows]


async def test_a_fill_of_an_ended_order_that_nobody_heard_is_learned_from_the_list(harness: Harness) -> None:
    intent, order_id = await harness.working()
    ended = a_report(CANCELED, client_order_id=order_id)
    await harness.report(ended)
    late = described(a_report(CANCELED, [an_execution(1, 4)], client_order_id=order_id), age=DAYS / 2)
    harness.broker.book[order_id] = late
    # It was taken long before the last comparison: only one that looks far back lists it.
    assert (await harness.reconcile()).is_complete
    assert await harness.position() == 0
    assert (await harness.reconcile(deep=True)).is_complete
    assert ((await harness.order(intent))["filled_quantity"], await harness.position()) == (4, 4)
    await harness.reconcile(deep=True)
    assert await harness.position() == 4


async def test_the_next_list_begins_a_little_before_the_last_one(harness: Harness) -> None:
    await harness.reconcile()
    reconciled_at = await harness.pool.fetchval("select reconciled_at from account_counters")
    await harness.reconcile()
    assert harness.broker.listed[1][1] == reconciled_at - timedelta(minutes=5)


async def test_an_order_that_the_broker_neither_lists_nor_finds_stays_as_it_is(harness: Harness) -> None:
    intent, order_id = await harness.working()
    result = await harness.reconcile()
    assert (result.is_complete, harness.broker.asked) == (False, [order_id])
    assert (await harness.order(intent))["standing"] == "WORKING"


async def test_an_order_that_is_listed_is_not_asked_for(harness: Harness) -> None:
    intent, order_id = await harness.working()
    harness.broker.book[order_id] = described(a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id))
    assert (await harness.reconcile()).is_complete
    assert harness.broker.asked == []
    assert (await harness.order(intent))["close_reason"] == "FILLED"


async def test_where_only_open_orders_are_found_the_list_from_before_the_door_tells_the_end(
    harness: Harness,
) -> None:
    intent, order_id = await harness.working()
    await harness.pool.execute("update action_states set send_started_at = send_started_at - interval '3 days'")
    ended = a_report(FILLED, [an_execution(1, 10)], client_order_id=order_id)
    harness.broker.book[order_id] = described(ended, age=3 * DAYS)

    async def none_is_open(_: str) -> None:
        return None

    harness.broker.look_up = none_is_open
    assert (await harness.reconcile(look_up=LookUp.OPEN_ORDERS)).is_complete
    assert (await harness.order(intent))["close_reason"] == "FILLED"


async def test_a_manual_trade_is_kept_and_counts_once_and_halts_nothing(harness: Harness) -> None:
    bought = theirs(a_report(WORKING, [an_execution(1, 5)]))
    harness.broker.book["x"] = bought
    for _ in range(2):
        assert (await harness.reconcile(bought)).is_complete
    assert (await external(harness), await harness.position()) == ([("x1", "WORKING", 5)], 5)
    sold = theirs(a_report(FILLED, [an_execution(1, 5), an_execution(2, 7, 3)]))
    harness.broker.book["x"] = sold
    await harness.reconcile()
    assert (await external(harness), await harness.position()) == ([("x1", "FILLED", 12)], 12)
    assert await halt_of(harness) == (None, None)
    rows = await harness.pool.fetch("select kind, intent_id, body from account_events order by event_no")
    assert [(row["kind"], row["intent_id"]) for row in rows] == [(EventKind.EXTERNAL_ORDER, None)] * 2
    told = json.loads(rows[1]["body"])
    assert (told["broker_order_id"], told["client_order_id"], told["filled_quantity"]) == ("x1", "by-phone-17", "12")
    # 26 for 12.
    assert [json.loads(row["body"])["average_price"] for row in rows] == ["1", "2.1666666667"]
    moves = await harness.pool.fetch("select change, value, average_price from position_changes order by change_no")
    assert [tuple(row) for row in moves] == [(5, 5, None), (7, 21, None)]


async def test_an_older_word_about_an_order_that_is_not_ours_takes_nothing_back(harness: Harness) -> None:
    fills = [an_execution(1, 5), an_execution(2, 5)]
    harness.broker.book["x"] = theirs(a_report(FILLED, fills), side=OrderSide.SELL)
    await harness.reconcile()
    harness.broker.book["x"] = theirs(a_report(WORKING, fills[:1]), side=OrderSide.SELL)
    await harness.reconcile()
    assert (await external(harness), await harness.position()) == ([("x1", "FILLED", 10)], -10)
    taken_back = ExecutionChange(execution_id="e2", revision=1, quantity=Decimal(0), price=Decimal(1))
    busted = theirs(a_report(FILLED, fills[:1]), side=OrderSide.SELL)
    harness.broker.book["x"] = replace(busted, changes=(taken_back,))
    await harness.reconcile()
    assert await harness.position() == -5
    moves = await harness.pool.fetch("select change, value from position_changes order by change_no")
    assert [tuple(row) for row in moves] == [(-10, -10), (5, 5)]


async def test_an_old_order_that_is_not_ours_is_followed_until_it_ends(harness: Harness) -> None:
    resting = theirs(a_report(WORKING), name=None, age=30 * DAYS)
    harness.broker.book["x"] = resting
    assert (await harness.reconcile(replace(resting, description=None), **CLASS_C)).is_complete
    harness.broker.book["x"] = theirs(a_report(FILLED, [an_execution(1, 3)]), name=None, age=30 * DAYS)
    await harness.reconcile(**CLASS_C)
    assert (await external(harness), await harness.position()) == ([("x1", "FILLED", 3)], 3)


async def test_an_order_with_an_id_of_ours_that_is_not_on_record_stops_the_account_until_an_operator_resumes_it(
    harness: Harness,
) -> None:
    working, order_id = await harness.working()
    waiting = await harness.accept(a_limit_create())
    harness.broker.book[order_id] = described(a_report(WORKING, client_order_id=order_id))
    rogue = ActionId(new_id())
    name = client_order_id(rogue)
    harness.broker.book[name] = described(a_report(FILLED, [an_execution(1, 9)], client_order_id=name), "x9")
    await harness.reconcile()
    code, detail = await halt_of(harness)
    assert code == ORDERS_EXCEED_DOORS
    assert detail is not None
    assert "x9" in detail
    assert str(rogue) in detail
    assert await harness.position() == 9
    await harness.accept(a_cancel(working))
    assert [door.action.action_type for door in await harness.work()] == ["CANCEL"]
    assert ("CREATE", "QUEUED", None) in await harness.states()
    assert await harness.pool.fetchval("select count(*) from audit_log where operation = 'accounts halt'") == 1
    store = PostgresOperatorStore(harness.pool, "olga")
    (listed,) = await store.list_accounts(None, halted_only=True)
    assert (listed["account_id"], listed["halt_code"]) == (str(harness.account.account_id), ORDERS_EXCEED_DOORS)
    await store.resume_account(harness.account.account_id, "the broker's desk entered it")
    entry = await harness.pool.fetchrow("select principal_id, after from audit_log where operation = 'accounts resume'")
    assert entry is not None
    assert (entry["principal_id"], json.loads(entry["after"])["because"]) == ("olga", "the broker's desk entered it")
    await harness.reconcile()
    assert await halt_of(harness) == (None, None)
    assert [door.action.intent_id for door in await harness.work()] == [waiting]
    changes = await harness.pool.fetch("select body from account_events where kind = 3 order by event_no")
    reasons = [json.loads(row["body"])["reason"] for row in changes]
    assert [reason and reason["code"] for reason in reasons] == [ORDERS_EXCEED_DOORS, None]


async def test_an_order_of_an_action_that_waits_to_be_sent_stops_the_account_and_is_not_sent_again(
    harness: Harness,
) -> None:
    await harness.accept(a_limit_create())
    action_id = await harness.pool.fetchval("select action_id from action_states")
    await harness.report(a_report(WORKING, client_order_id=client_order_id(action_id)))
    assert (await halt_of(harness))[0] == ORDERS_EXCEED_DOORS
    assert await harness.work() == []
    assert harness.broker.writes == []


async def test_an_order_of_a_skipped_action_stops_the_account(harness: Harness) -> None:
    intent = await harness.accept(a_limit_create())
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert [state for _, state, _ in await harness.states()] == ["SKIPPED", "SKIPPED"]
    action_id = await harness.pool.fetchval("select action_id from action_states order by action_no limit 1")
    name = client_order_id(action_id)
    harness.broker.book[name] = described(a_report(WORKING, client_order_id=name))
    await harness.reconcile()
    assert (await halt_of(harness))[0] == ORDERS_EXCEED_DOORS


async def test_two_orders_with_one_id_stop_the_account(harness: Harness) -> None:
    _, order_id = await harness.working()
    once = described(a_report(WORKING, client_order_id=order_id))
    harness.broker.book = {order_id: once, "twin": replace(once, broker_order_id="b2")}
    await harness.reconcile()
    code, detail = await halt_of(harness)
    assert code == ORDERS_EXCEED_DOORS
    assert "b1, b2" in (detail or "")
    # Whoever lets it go on has looked at these; the next such order stops it again.
    await PostgresOperatorStore(harness.pool, "olga").resume_account(harness.account.account_id, "both are wanted")
    await harness.reconcile()
    assert await halt_of(harness) == (None, None)
    later = described(once, "b3", age=timedelta(seconds=-60))
    harness.broker.book |= {"third": later, "fourth": replace(later, broker_order_id="b4")}
    await harness.reconcile()
    assert "b3, b4" in ((await halt_of(harness))[1] or "")


@pytest.mark.parametrize("name", ["by-phone-17", None, "0" * 22, "7" * 21, "~" * 22])
async def test_an_id_that_was_not_made_here_halts_nothing(harness: Harness, name: str | None) -> None:
    harness.broker.book["x"] = theirs(a_report(WORKING), name)
    await harness.reconcile()
    assert await halt_of(harness) == (None, None)
    assert await external(harness) == [("x1", "WORKING", 0)]


TEN = Terms(quantity=Decimal(10), limit_price=Decimal(1), stop_price=None, time_in_force=TimeInForce.DAY)


async def candidates(harness: Harness) -> list[str]:
    found: list[str] = await harness.pool.fetchval("select candidates from action_states order by action_no limit 1")
    return found


async def test_what_may_be_our_own_order_is_named_as_a_candidate_and_never_guessed(harness: Harness) -> None:
    harness.broker.script.append(Unknown("no answer"))
    await harness.accept(a_limit_create())
    await harness.work()
    harness.broker.book["x"] = theirs(a_report(FILLED, [an_execution(1, 10)], terms=TEN), name=None, age=DAYS / 100)
    result = await harness.reconcile(deep=True, **CLASS_C)
    assert not result.is_complete
    assert (await candidates(harness), await external(harness), await harness.position()) == (["x1"], [], 0)
    # The next list begins with what waits.
    await harness.reconcile(**CLASS_C)
    assert await candidates(harness) == ["x1"]
    await harness.pool.execute("update action_states set state = 'FAILED', settled_at = now()")
    assert (await harness.reconcile(**CLASS_C)).is_complete
    assert (await external(harness), await harness.position()) == ([("x1", "FILLED", 10)], 10)


@pytest.mark.parametrize("difference", ["quantity", "side"])
async def test_an_order_that_cannot_be_the_one_in_doubt_is_no_candidate(harness: Harness, difference: str) -> None:
    harness.broker.script.append(Unknown("no answer"))
    await harness.accept(a_limit_create())
    await harness.work()
    terms = replace(TEN, quantity=Decimal(11)) if difference == "quantity" else TEN
    side = OrderSide.SELL if difference == "side" else OrderSide.BUY
    harness.broker.book["x"] = theirs(a_report(WORKING, terms=terms), name=None, side=side, age=DAYS / 1000)
    assert (await harness.reconcile(deep=True, **CLASS_C)).is_complete
    assert (await candidates(harness), await external(harness)) == ([], [("x1", "WORKING", 0)])


async def test_an_order_younger_than_the_settle_time_may_be_ours_and_waits(harness: Harness) -> None:
    harness.broker.book["x"] = theirs(a_report(WORKING, terms=TEN), name=None)
    assert not (await harness.reconcile(look_up=LookUp.BROKER_ID, settle_seconds=60.0)).is_complete
    assert await external(harness) == []
    assert (await harness.reconcile(**CLASS_C)).is_complete
    assert await external(harness) == [("x1", "WORKING", 0)]


async def test_open_orders_are_asked_for_by_the_broker_s_ids_where_it_knows_no_others(harness: Harness) -> None:
    intent, _ = await harness.working()
    filled = replace(a_report(FILLED, [an_execution(1, 10)]), client_order_id=None)
    harness.broker.book["x"] = described(filled, age=3 * DAYS)
    assert (await harness.reconcile(**CLASS_C)).is_complete
    assert (await harness.order(intent))["close_reason"] == "FILLED"
